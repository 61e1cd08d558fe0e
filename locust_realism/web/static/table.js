// Tables of figures: right-aligned, grouped, in a fixed order, updated in place.

import { h, setChildren, setHidden, setText } from "./dom.js";
import { DASH, digitsFor, formatNumber } from "./format.js";
import { term } from "./hints.js";

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} title
 * @property {string} [unit] of all values, in the heading
 * @property {string} [term] explained on hover
 * @property {boolean} [optional] not shown while no row has a value
 * @property {"text" | "number" | "name" | "status"} [kind] number when not given
 * @property {number} [digits] decimals; else three significant digits of the column's typical value
 * @property {(value: any, row: any) => string} [format]
 * @property {(value: any, row: any) => string | null} [note] small print under the value
 * @property {(row: any) => string | null} [hint] shown on hover of the value
 * @property {(row: any) => boolean} [unsure] a "~" stands before the value
 */

/**
 * @param {any} context
 * @param {{caption: string, columns: Column[], rowKey?: (row: any) => string, total?: (row: any) => boolean}} options
 */
export function createTable(context, { caption, columns, rowKey, total }) {
  const body = h("tbody");
  const heads = columns.map((column) => h("th", { scope: "col", class: cellClass(column) },
    column.term ? term(context, column.term, column.title) : column.title,
    column.unit ? h("span", { class: "lr-unit" }, ` ${column.unit}`) : null));
  const table = h("table", { class: "lr-table" }, h("caption", { class: "lr-hidden" }, caption),
    h("thead", {}, h("tr", {}, ...heads)), body);
  const scroller = h("div", { class: "lr-scroll", role: "region", tabindex: "0", "aria-label": caption }, table);
  const empty = h("p", { class: "lr-empty", hidden: true });
  /** @type {Map<string, HTMLElement>} */
  const known = new Map();

  /** @param {any[] | null | undefined} rows @param {string} [whenEmpty] text in place of an empty table */
  function update(rows, whenEmpty = "") {
    const shown = rows ?? [];
    setHidden(scroller, !shown.length);
    setHidden(empty, Boolean(shown.length) || !whenEmpty);
    setText(empty, whenEmpty);
    const digits = columns.map((column) => column.digits ?? digitsFor(shown.map((row) => row[column.key])));
    const absent = columns.map((column) => Boolean(column.optional) && shown.every((row) => row[column.key] === null || row[column.key] === undefined));
    heads.forEach((head, i) => setHidden(head, absent[i]));
    const keys = new Set();
    shown.forEach((row, index) => {
      const key = rowKey ? rowKey(row) : `${row.method ?? ""}\n${row.label ?? index}`;
      keys.add(key);
      let line = known.get(key);
      if (!line) {
        line = h("tr", { class: total?.(row) ? "lr-total" : null }, ...columns.map(newCell));
        known.set(key, line);
      }
      columns.forEach((column, i) => {
        const cell = /** @type {HTMLElement} */ (line?.children[i]);
        setHidden(cell, absent[i]);
        if (!absent[i]) fillCell(cell, column, row, digits[i]);
      });
      if (body.children[index] !== line) body.insertBefore(line, body.children[index] ?? null);
    });
    for (const [key, line] of known) {
      if (!keys.has(key)) { line.remove(); known.delete(key); }
    }
  }

  return { root: h("div", { class: "lr-table-box" }, scroller, empty), update };
}

function cellClass(/** @type {Column} */ column) {
  return `lr-${column.kind ?? "number"}`;
}

function newCell(/** @type {Column} */ column) {
  const isHeader = column.kind === "name";
  return h(isHeader ? "th" : "td", { class: cellClass(column), scope: isHeader && "row" });
}

/** @param {Element} cell @param {Column} column @param {any} row @param {number} digits */
function fillCell(cell, column, row, digits) {
  const value = row[column.key];
  const text = column.format ? column.format(value, row)
    : column.kind === "text" || column.kind === "name" ? String(value ?? "") : formatNumber(value, digits);
  const note = column.note?.(value, row) ?? "";
  if (column.kind === "status") {
    const status = row.status ?? value;
    setChildren(/** @type {HTMLElement} */ (cell), `${status}|${text}`, () => [status ? statusChip(status, text) : DASH]);
  } else if (note || cell.firstElementChild) {
    setChildren(/** @type {HTMLElement} */ (cell), `${text}|${note}`,
      () => [text, ...(note ? [h("span", { class: "lr-note" }, note)] : [])]);
  } else {
    setText(cell, text);
  }
  if (column.kind === "name" && text.length > 40) cell.setAttribute("title", text);
  if (column.hint) cell.setAttribute("title", column.hint(row) ?? "");
  if (column.unsure) cell.classList.toggle("lr-unsure", column.unsure(row));
}

/** @type {Record<string, {sign: string, word: string, rank: number}>} */
export const STATUSES = {
  red: { sign: "✕", word: "Red", rank: 0 },
  amber: { sign: "!", word: "Amber", rank: 1 },
  green: { sign: "✓", word: "Green", rank: 3 },
  "not enough data": { sign: "…", word: "Not enough data", rank: 2 },
  info: { sign: "i", word: "For information", rank: 4 },
};

/** Build a status chip of colour, sign and word: never of colour alone. */
export function statusChip(/** @type {string} */ status, /** @type {string} */ text = "") {
  const known = STATUSES[status] ?? STATUSES["not enough data"];
  const name = status in STATUSES ? status.replaceAll(" ", "-") : "not-enough-data";
  return h("span", { class: `lr-chip lr-${name}` },
    h("span", { class: "lr-sign", "aria-hidden": "true" }, known.sign), text || known.word);
}
