// Picker of the name whose curves a chart shows.

import { h, newId, setChildren } from "./dom.js";

/** Text of a row's method and name. @param {{label?: string, method?: string}} row */
export function fullName(row) {
  return `${row.method ?? ""} ${row.label ?? ""}`.trim();
}

/**
 * A native select of names; `current` finds the chosen one's entry in a list, Aggregated (the first) if it is gone.
 * @param {() => void} onChange
 */
export function createNamePicker(onChange) {
  const id = newId();
  const select = /** @type {HTMLSelectElement} */ (h("select", { id, class: "lr-select", onchange: onChange }));
  const root = h("div", { class: "lr-picker" }, h("label", { for: id }, "Name"), select);

  /** @param {any[]} entries */
  function update(entries) {
    const names = entries.map(fullName);
    const chosen = select.value;
    setChildren(select, JSON.stringify(names), () => names.map((name) =>
      h("option", { value: name, selected: name === chosen }, name.length > 90 ? `${name.slice(0, 88)}…` : name)));
    root.hidden = names.length < 2;
  }

  const current = (/** @type {any[]} */ entries) => entries.find((entry) => fullName(entry) === select.value) ?? entries[0];
  return { root, update, current };
}
