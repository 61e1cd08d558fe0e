// Context of a page that opens from a file, without a running Locust: theme, charts, links.

import { h } from "./dom.js";
import { installHints } from "./hints.js";
import { TERMS } from "./terms.js";
import { themeOf } from "./theme.js";

/**
 * Make an element the root of an offline page: dark by the reader's preference, light on paper, terms explained.
 * `build` gets the context that charts and tables take and returns the parts of the page.
 * @param {HTMLElement} root @param {(context: any) => (Node | null)[]} build
 */
export function drawOffline(root, build) {
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  /** @type {(() => void)[]} */
  const themed = [];
  let printing = false;
  const dark = () => media.matches && !printing;
  const context = {
    live: false, window: "run", theme: () => themeOf(dark()),
    echarts: async () => /** @type {any} */ (window).echarts ?? null,
    docs: (/** @type {string} */ key) => `#${key}`,
    onTheme: (/** @type {() => void} */ listener) => { themed.push(listener); },
    setWindow: () => {},
  };
  const dress = () => {
    root.dataset.theme = dark() ? "dark" : "light";
    themed.forEach((listener) => listener());
  };
  root.classList.add("lr", "lr-report");
  root.replaceChildren(...build(context).filter((part) => part !== null));
  dress();
  installHints(root);
  media.addEventListener("change", dress);
  window.addEventListener("beforeprint", () => { printing = true; dress(); });
  window.addEventListener("afterprint", () => { printing = false; dress(); });
}

/** Build a part of a page with its heading. @param {string} title @param {...Node} children */
export function part(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", { class: "lr-part" }, title), h("div", { class: "lr-tab" }, ...children));
}

/** Build the list of a page's facts. @param {unknown[][]} pairs of name and value */
export function factList(pairs) {
  return h("dl", { class: "lr-facts" }, ...pairs.map(([name, value]) => h("div", {}, h("dt", {}, String(name)), h("dd", {}, String(value)))));
}

/** Terms of a page with their explanations, the targets of its links. @param {string[]} keys */
export function termList(keys) {
  return h("section", { "aria-label": "Terms", class: "lr-glossary" }, h("h2", { class: "lr-part" }, "Terms"),
    h("dl", {}, ...keys.map((key) => h("div", { id: key }, h("dt", {}, TERMS[key].title), h("dd", {}, TERMS[key].text)))));
}
