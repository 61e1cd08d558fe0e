// Colours of the charts, light and dark; text has a contrast of 4.5 : 1 or more.

/**
 * @typedef {{dark: boolean, text: string, muted: string, line: string, paper: string, accent: string, blue: string,
 *   orange: string, red: string, purple: string, bar: string, band: string, labels: string[]}} Theme
 */

/** @type {Theme} */
const LIGHT = {
  dark: false, text: "#1f2328", muted: "#57606a", line: "#e3e6ea", paper: "#ffffff",
  accent: "#15803d", blue: "#1d6fd1", orange: "#b45309", red: "#c02626", purple: "#7c3aed",
  bar: "#9dc9ae", band: "rgba(21, 128, 61, 0.13)",
  labels: ["#1d6fd1", "#b45309", "#7c3aed", "#0f766e", "#be185d", "#4d7c0f", "#9333ea", "#0369a1", "#a16207", "#c2410c"],
};

/** @type {Theme} */
const DARK = {
  dark: true, text: "#e8eaed", muted: "#aab2bd", line: "#3a3f45", paper: "#1e1e1e",
  accent: "#4ade80", blue: "#6cb2ff", orange: "#fbaa5b", red: "#ff8080", purple: "#c4a7ff",
  bar: "#3f7f57", band: "rgba(74, 222, 128, 0.15)",
  labels: ["#6cb2ff", "#fbaa5b", "#c4a7ff", "#5eead4", "#f9a8d4", "#bef264", "#d8b4fe", "#7dd3fc", "#fde047", "#fdba74"],
};

/** @param {boolean} dark */
export function themeOf(dark) {
  return dark ? DARK : LIGHT;
}

/** Return true if the page is dark, by the luminance of its background. @param {Element} element */
export function isDark(element) {
  for (let at = /** @type {Element | null} */ (element); at; at = at.parentElement) {
    const channels = getComputedStyle(at).backgroundColor.match(/[\d.]+/g)?.map(Number);
    if (channels && (channels[3] ?? 1) > 0.5) {
      return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2] < 128;
    }
  }
  return false;
}

/** Return the colour of a name, the same at every place in a list. @param {Theme} theme @param {string} name */
export function labelColor(theme, name) {
  return theme.labels[slotOf(name, theme.labels.length)];
}

/** Return the colours of several names, different ones as long as there are enough. @param {Theme} theme @param {string[]} names */
export function labelColors(theme, names) {
  const count = theme.labels.length;
  /** @type {Map<string, string>} */
  const found = new Map();
  const taken = new Set();
  for (const name of [...names].sort()) {
    let slot = slotOf(name, count);
    for (let tries = 0; taken.has(slot) && tries < count; tries += 1) slot = (slot + 1) % count;
    taken.add(slot);
    found.set(name, theme.labels[slot]);
  }
  return found;
}

function slotOf(/** @type {string} */ name, /** @type {number} */ count) {
  let hash = 2166136261;
  for (let i = 0; i < name.length; i += 1) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  return (hash >>> 0) % count;
}
