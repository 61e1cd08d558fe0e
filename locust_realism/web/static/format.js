// Numbers and times in the browser's locale.

/** Text of a missing value. */
export const DASH = "–";

const formatters = new Map();

/** @param {number} value @param {number} digits decimals, always shown */
function fixed(value, digits) {
  let formatter = formatters.get(digits);
  if (!formatter) {
    formatter = new Intl.NumberFormat(undefined, {
      minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: true,
    });
    formatters.set(digits, formatter);
  }
  return formatter.format(value);
}

/** @param {unknown} value @returns {value is number} */
export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

/**
 * Write a number with grouped thousands; a dash for null.
 * @param {unknown} value
 * @param {number} [digits] decimals; three significant digits when not given
 */
export function formatNumber(value, digits) {
  if (!isNumber(value)) return DASH;
  return fixed(value, digits ?? digitsFor([value]));
}

/**
 * Return the decimals that show three significant digits of a column's typical value; its decimal points line up.
 * @param {unknown[]} values @param {number} [most]
 */
export function digitsFor(values, most = 3) {
  const sizes = values.filter(isNumber).map(Math.abs).filter((size) => size > 0).sort((a, b) => a - b);
  if (!sizes.length || sizes.every(Number.isInteger)) return 0;
  const typical = sizes[Math.floor((sizes.length - 1) / 2)];
  return Math.max(0, Math.min(most, 2 - Math.floor(Math.log10(typical))));
}

/** @param {unknown} value a share in [0, 1] @param {number} [digits] */
export function formatShare(value, digits = 1) {
  return isNumber(value) ? `${fixed(100 * value, digits)} %` : DASH;
}

/** @param {unknown} seconds */
export function formatDuration(seconds) {
  if (!isNumber(seconds)) return DASH;
  if (seconds < 60) return `${fixed(seconds, seconds < 10 && !Number.isInteger(seconds) ? 1 : 0)} s`;
  const total = Math.round(seconds);
  const parts = [[Math.floor(total / 3600), "h"], [Math.floor(total / 60) % 60, "min"], [total % 60, "s"]];
  const from = parts.findIndex(([count]) => count);
  return parts.slice(from, from + 2).filter(([count]) => count).map(([count, unit]) => `${count} ${unit}`).join(" ");
}

/** @param {unknown} bytes */
export function formatBytes(bytes) {
  if (!isNumber(bytes)) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = bytes;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) { size /= 1000; unit += 1; }
  return `${fixed(size, unit && size < 100 ? 1 : 0)} ${units[unit]}`;
}

const ticks = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 });

/** Write a round number as short as possible, for an axis or a sentence: 50, 0.5, 1,200. @param {unknown} value */
export function formatTick(value) {
  return isNumber(value) ? ticks.format(value) : DASH;
}

/** Write seconds since the start as the label of a time axis: 45 s, 12:30, 3:05:00. @param {number} seconds */
export function formatClock(seconds) {
  const total = Math.round(seconds);
  if (Math.abs(total) < 60) return `${total} s`;
  const pad = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const hours = Math.floor(total / 3600);
  const rest = `${pad(Math.floor(total / 60) % 60)}:${pad(total % 60)}`;
  return hours ? `${hours}:${rest}` : rest.replace(/^0/, "");
}

/**
 * Write a table as CSV; a cell that a spreadsheet could run as a formula gets a quote in front.
 * @param {string[]} columns @param {unknown[][]} rows
 */
export function toCsv(columns, rows) {
  const cell = (/** @type {unknown} */ value) => {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (typeof value === "string" && /^\s*[=+\-@\t\r\n]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return [columns, ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}
