// What a page that opens from a file has instead of a running Locust: its theme, its charts, its links.

import { h } from "./dom.js";
import { installHints } from "./hints.js";
import { TERMS } from "./terms.js";
import { themeOf } from "./theme.js";

/**
 * Make an element the root of an offline page: dark where the reader wants dark, light on paper, terms explained.
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

/** The terms that a page uses, with their explanations: what its links lead to. @param {string[]} keys */
export function termList(keys) {
  return h("section", { "aria-label": "Terms", class: "lr-glossary" }, h("h2", { class: "lr-part" }, "Terms"),
    h("dl", {}, ...keys.map((key) => h("div", { id: key }, h("dt", {}, TERMS[key].title), h("dd", {}, TERMS[key].text)))));
}
