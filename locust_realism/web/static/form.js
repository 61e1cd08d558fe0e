// The start form: fields of one prefix fold into a group, with short labels and the full help texts below them.
// Locust's elements keep their place and text; we add attributes and elements of our own.

import { h, newId } from "./dom.js";

/** @type {Record<string, {title: string, whole?: boolean}>} prefix of the options; `whole`: the prefix stays in the label */
const GROUPS = {
  realism: { title: "Recording and analysis" },
  dav: { title: "WebDAV scenario" },
  population: { title: "User population" },
  think: { title: "Think times", whole: true },
};
const FEWEST = 2;

/** Group the fields of every new form in the page. @param {Element} page */
export function installFormGroups(page) {
  for (const input of page.ownerDocument.querySelectorAll("form .MuiAccordionDetails-root [name]")) {
    const list = input.closest(".MuiAccordionDetails-root")?.firstElementChild;
    if (!(list instanceof HTMLElement) || list.dataset.lrGrouped) continue;
    list.dataset.lrGrouped = "yes";
    groupFields(list);
  }
}

/** @param {HTMLElement} list the column of fields */
function groupFields(list) {
  /** @type {{prefix: string, fields: HTMLElement[]}[]} */
  const runs = [];
  for (const field of /** @type {HTMLElement[]} */ ([...list.children])) {
    const prefix = field.querySelector("[name]")?.getAttribute("name")?.match(/^[a-z]+(?=[A-Z])/)?.[0] ?? "";
    if (runs.at(-1)?.prefix === prefix) runs.at(-1)?.fields.push(field);
    else runs.push({ prefix, fields: [field] });
  }
  for (const { prefix, fields } of runs) {
    if (!(prefix in GROUPS)) continue;
    fields.forEach((field) => explain(field, prefix));
    if (fields.length >= FEWEST) fold(list, GROUPS[prefix].title, fields);
  }
}

/** Add a button that shows and hides the fields after it. @param {HTMLElement} list @param {string} title @param {HTMLElement[]} fields */
function fold(list, title, fields) {
  const button = h("button", { type: "button", "data-lr-fold": "", "aria-expanded": "false" },
    h("span", { "aria-hidden": "true" }, "▸"), ` ${title} `, h("small", {}, `${fields.length} options`));
  const show = (/** @type {boolean} */ open) => {
    button.setAttribute("aria-expanded", String(open));
    for (const field of fields) field.toggleAttribute("data-lr-folded", !open);
  };
  button.addEventListener("click", () => show(button.getAttribute("aria-expanded") !== "true"));
  show(false);
  list.insertBefore(button, fields[0]);
}

/** Give a field a short label, and the help text as its description. @param {HTMLElement} field @param {string} prefix */
function explain(field, prefix) {
  const input = field.querySelector("[name]");
  const label = field.querySelector("label, .MuiFormControlLabel-label");
  const parts = label?.textContent?.match(/^([^(]+?) \((.+)\)$/s);
  if (!input || !label || !parts) return;
  const [, name, help] = parts;
  const short = sentenceCase(!GROUPS[prefix].whole && name.toLowerCase().startsWith(`${prefix} `) ? name.slice(prefix.length + 1) : name);
  const id = newId();
  field.toggleAttribute("data-lr-select", input instanceof HTMLSelectElement);
  for (const text of field.querySelectorAll("label, legend > span, .MuiFormControlLabel-label")) {
    if (!text.querySelector("[name]")) text.setAttribute("data-lr-label", short);
  }
  const shown = help.charAt(0).toUpperCase() + help.slice(1);
  (field.matches(".MuiFormControl-root") ? field : field.appendChild(h("div"))).append(h("p", { id, "data-lr-help": "" }, shown));
  input.setAttribute("aria-describedby", id);
  input.setAttribute("aria-label", short);
}

/** Write Max Users as Max users. @param {string} text */
function sentenceCase(text) {
  return (text.charAt(0) + text.slice(1).toLowerCase()).replace("Warmup", "Warm-up");
}
