// Charts of a sweep, as pure functions of the JSON: figures against users or think time, with error bars.

import { baseOption, levelMark, lineSeries, timeAxis } from "./chart.js";
import { formatClock, formatNumber, formatTick, isNumber } from "./format.js";

const LEGEND_WIDTH = 1000;
export const MOST_IN_HALF = 4;
const SYMBOLS = ["circle", "triangle", "rect", "diamond", "pin", "arrow"];

/** @typedef {{name: string, cells: any[]}} Line */

/** Write a number of users. @param {number} number */
export function usersInWords(number) {
  return `${formatTick(number)} user${number === 1 ? "" : "s"}`;
}

/** Return the colour of the i-th line, the same in every chart. @param {import("./theme.js").Theme} theme @param {number} i */
function colorOf(theme, i) {
  return [theme.accent, ...theme.labels][i % (theme.labels.length + 1)];
}

/**
 * Build points joined by a line, and their 95 % limits as upright strokes: ECharts' small build has no error bars.
 * @param {string} name @param {[number, any, any, any][]} points x, value, low, high @param {string} color @param {number} i
 */
function withErrors(name, points, color, i) {
  // A limit that the data does not set is not drawn: then the stroke begins at the point.
  const bars = points.filter(([, , low, high]) => isNumber(low) || isNumber(high))
    .flatMap(([x, y, low, high]) => [[x, isNumber(low) ? low : y], [x, isNumber(high) ? high : y], [x, null]]);
  return [
    lineSeries(name, points.map(([x]) => x), points.map(([, y]) => y), color, { showSymbol: true, symbol: SYMBOLS[i % SYMBOLS.length], symbolSize: 7 }),
    ...(bars.length ? [{ type: "line", name: `${name} `, silentInLegend: true, silent: true, data: bars, showSymbol: false, color,
      lineStyle: { width: 1.5, color }, tooltip: { show: false }, emphasis: { disabled: true }, z: 1 }] : []),
  ];
}

/** Build the horizontal axis of a page's charts. @param {any} data */
function xAxis(data) {
  const users = data.x === "users";
  return { type: data.logarithmic ? "log" : "value", name: users ? "Users" : "Mean think time (s)", scale: !users || data.logarithmic,
    min: data.logarithmic ? "dataMin" : users ? 0 : undefined, max: data.logarithmic ? "dataMax" : undefined,
    axisLabel: { formatter: formatTick } };
}

/** @param {any} data @param {any} cell */
function xOf(data, cell) {
  return data.x === "users" ? cell.users : cell.think_time_s;
}

/**
 * Chart a figure of the cells against users or think time, a line for each other combination.
 * @param {any} data @param {string} key @param {{name: string, unit?: string, min?: number, level?: [number, string]}} y
 */
export function figureChart(data, key, y) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const series = data.lines.flatMap((/** @type {Line} */ line, /** @type {number} */ i) =>
      withErrors(line.name, line.cells.filter((cell) => isNumber(cell[key]))
        .map((cell) => [xOf(data, cell), cell[key], cell[`${key}_low`], cell[`${key}_high`]]), colorOf(theme, i), i));
    const unit = y.unit ? ` ${y.unit}` : "";
    if (y.level && series.length) {
      series[0].markLine = levelMark(theme, y.level[0], y.level[1]);
    }
    const option = baseOption(theme, {
      x: xAxis(data), y: { type: "value", name: y.name, ...(y.min === undefined ? { scale: true } : { min: y.min }) },
      unit: (value) => formatNumber(value) + unit, head: (value) => `${formatTick(value)} ${data.x === "users" ? "users" : "s"}`, series,
    });
    const shown = data.lines.flatMap((/** @type {Line} */ line) => line.cells);
    return { option, text: extremes(data, shown, key, unit),
      columns: ["line", "users", "think_time_s", key, `${key}_low`, `${key}_high`],
      rows: data.lines.flatMap((/** @type {Line} */ line) => line.cells.map((cell) =>
        [line.name, cell.users, cell.think_time_s, cell[key], cell[`${key}_low`] ?? null, cell[`${key}_high`] ?? null])) };
  };
}

/** Write the smallest and the largest figure in one sentence. @param {any} data @param {any[]} cells @param {string} key @param {string} unit */
function extremes(data, cells, key, unit) {
  const known = cells.filter((cell) => isNumber(cell[key]));
  if (!known.length) return "No figures.";
  const sorted = [...known].sort((a, b) => a[key] - b[key]);
  const place = (/** @type {any} */ cell) => [cell.variant, usersInWords(cell.users),
    isNumber(cell.think_time_s) ? `${formatTick(cell.think_time_s)} s of think time` : ""].filter(Boolean).join(", ");
  const [low, high] = [sorted[0], /** @type {any} */ (sorted.at(-1))];
  return `From ${formatNumber(low[key])}${unit} (${place(low)}) to ${formatNumber(high[key])}${unit} (${place(high)}).`;
}

/**
 * Show all names of a chart as wide as the page, in as many lines as they need, instead of a legend with pages.
 * @param {any} option @param {string[]} names
 */
function inFull(option, names) {
  const width = names.reduce((sum, name) => sum + 36 + 6.5 * name.length, 0);
  return { ...option, legend: { ...option.legend, type: "plain" }, grid: { ...option.grid, top: 44 + 20 * Math.floor(width / LEGEND_WIDTH) } };
}

/** Densities of the response times at one number of users. @param {any} density */
export function densitiesChart(density) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { curves } = density;
    const option = baseOption(theme, {
      x: { type: "log", name: "Response time (ms)", min: "dataMin", max: "dataMax", axisLabel: { formatter: formatTick, showMinLabel: false, showMaxLabel: false } },
      y: { type: "value", name: "share per ms", min: 0, axisLabel: { formatter: formatTick } },
      unit: (value) => formatNumber(value), head: (value) => `${formatNumber(value)} ms`,
      series: curves.map((/** @type {any} */ curve, /** @type {number} */ i) => lineSeries(curve.name, curve.ms, curve.density, colorOf(theme, i))),
    });
    const names = curves.map((/** @type {any} */ curve) => curve.name);
    const tops = curves.map((/** @type {any} */ curve) => `${curve.name}: ${formatNumber(curve.ms[curve.density.indexOf(Math.max(...curve.density))])} ms`);
    return { option: names.length > MOST_IN_HALF ? inFull(option, names) : option, text: `Most frequent response time at ${usersInWords(density.users)}: ${tops.join("; ")}.`,
      columns: ["line", "ms", "density"],
      rows: curves.flatMap((/** @type {any} */ curve) => curve.ms.map((/** @type {number} */ x, /** @type {number} */ i) => [curve.name, x, curve.density[i]])) };
  };
}

/** CoV of the launches against R / (R + Z), a point for each cell. @param {any} data */
export function feedbackChart(data) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const series = data.lines.flatMap((/** @type {Line} */ line, /** @type {number} */ i) => withErrors(line.name,
      line.cells.filter((cell) => isNumber(cell.launch_cov) && isNumber(cell.response_share)).sort((a, b) => a.response_share - b.response_share)
        .map((cell) => [cell.response_share, cell.launch_cov, cell.launch_cov_low, cell.launch_cov_high]), colorOf(theme, i), i));
    const option = baseOption(theme, {
      x: { type: "value", name: "R / (R + Z)", min: 0, axisLabel: { formatter: formatTick } },
      y: { type: "value", name: "CoV of the launches", scale: true }, unit: (value) => formatNumber(value), head: (value) => formatNumber(value), series,
    });
    return { option, text: "Feedback of the server on the users against the CoV of the launches; independent users have 1.",
      columns: ["line", "users", "think_time_s", "response_share", "launch_cov"],
      rows: data.lines.flatMap((/** @type {Line} */ line) => line.cells.map((cell) => [line.name, cell.users, cell.think_time_s, cell.response_share, cell.launch_cov])) };
  };
}

/** CoV of the launches of the first users together, a line for each cell. @param {any} groups */
export function groupsChart(groups) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const series = groups.columns.map((/** @type {any} */ column, /** @type {number} */ i) =>
      lineSeries(column.name, groups.sizes, groups.sizes.map((/** @type {number} */ size) => column.cov[size]?.cov ?? null), colorOf(theme, i), { connectNulls: true }));
    const option = baseOption(theme, {
      x: { type: "log", name: "Users taken together", min: "dataMin", max: "dataMax", axisLabel: { formatter: formatTick } },
      y: { type: "value", name: "CoV", scale: true }, unit: (value) => formatNumber(value, 2), head: (value) => `${formatTick(value)} users`, series,
    });
    return { option: inFull(option, groups.columns.map((/** @type {any} */ column) => column.name)), text: "CoV of the launches of the first 1, 2, 3 … users together; independent users approach 1 with few users.",
      columns: ["users", ...groups.columns.map((/** @type {any} */ column) => column.name)],
      rows: groups.sizes.map((/** @type {number} */ size) => [size, ...groups.columns.map((/** @type {any} */ column) => column.cov[size]?.cov ?? null)]) };
  };
}

/** Rate, planned rate and percentiles over the time of a run. @param {any} time @param {"rate" | "times"} what */
export function overTimeChart(time, what) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t } = time;
    const keys = what === "rate" ? [["Launched", "rate", theme.accent], ["Planned", "planned_rate", theme.muted], ["Users", "users", theme.blue]]
      : [["p50", "p50_ms", theme.accent], ["p95", "p95_ms", theme.orange], ["p99", "p99_ms", theme.red]];
    const known = keys.filter(([, key]) => time[key]?.some(isNumber) && !(key === "users" && time.planned_rate?.some(isNumber)));
    const option = baseOption(theme, {
      x: timeAxis(t), y: { type: "value", name: what === "rate" ? "per second" : "ms", min: 0 }, unit: (value) => formatNumber(value), head: formatClock,
      series: known.map(([name, key, color]) => lineSeries(name, t, time[key], color)),
    });
    const beside = known.slice(1).map(([name]) => (name === "Users" ? "the number of users" : "the planned rate"));
    return { option, text: what === "rate" ? ["Launches a second", ...beside].join(" and ") + "." : "Response times over the run.",
      columns: ["t_s", ...known.map(([name]) => name)], rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, ...known.map(([, key]) => time[key][i])]) };
  };
}
