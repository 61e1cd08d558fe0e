// Tab 2: exact percentiles of the response times.

import { createChart } from "./chart.js";
import { densityChart, percentilePlot, percentilesOverTime } from "./charts-percentiles.js";
import { h, setHidden, setText } from "./dom.js";
import { formatClock, formatDuration, formatNumber, formatTick, isNumber } from "./format.js";
import { term } from "./hints.js";
import { createNamePicker, fullName } from "./names.js";
import { createTable } from "./table.js";
import { createWindowPicker } from "./windows.js";

/** @type {Record<string, string>} */
const RULES = {
  nearest_rank: "nearest rank (R type 1): an observed time that at least that share of the requests did not exceed",
  linear: "linear between observations (R type 7, numpy's default)",
  jmeter: "as JMeter's aggregate report: rank round(n p)",
  locust: "Locust's rank, floor(n p) + 1, of exact times",
};

/** @param {any} context */
export function createPercentiles(context) {
  /** @type {any} */
  let last = null;
  /** @type {Map<string, any>} */
  let rounded = new Map();
  const beside = (/** @type {string} */ key) => (/** @type {any} */ value, /** @type {any} */ row) => {
    const shown = rounded.get(fullName(row))?.[key];
    return isNumber(shown) && isNumber(value) && Math.abs(shown - value) > 0.01 * value ? `Locust ${formatNumber(shown, 0)}` : null;
  };
  /** @type {import("./table.js").Column[]} */
  const columns = [
    { key: "method", title: "Type", kind: "text" },
    { key: "label", title: "Name", kind: "name" },
    { key: "n", title: "Requests", digits: 0 },
    { key: "failures", title: "Failures", digits: 0 },
    { key: "mean_ms", title: "Mean", unit: "ms" },
    { key: "cov", title: "CoV", term: "cov", digits: 2 },
    { key: "p50_ms", title: "p50", unit: "ms", term: "percentile", note: beside("p50_ms"), ...interval("p50_interval_ms") },
    { key: "p90_ms", title: "p90", unit: "ms", note: beside("p90_ms"), ...interval("p90_interval_ms") },
    { key: "p95_ms", title: "p95", unit: "ms", note: beside("p95_ms"), ...interval("p95_interval_ms") },
    { key: "p99_ms", title: "p99", unit: "ms", note: beside("p99_ms"), ...interval("p99_interval_ms") },
    { key: "p999_ms", title: "p99.9", unit: "ms", ...interval("p999_interval_ms") },
    { key: "min_ms", title: "Min", unit: "ms" },
    { key: "max_ms", title: "Max", unit: "ms" },
  ];
  const table = createTable(context, { caption: "Response times, by name", columns, total: (row) => row.label === "Aggregated" && !row.method });
  const ruleText = h("span");
  const rule = h("p", { class: "lr-fine" }, term(context, "rule", "Percentile rule"), ": ", ruleText, ". ",
    term(context, "locust", "Locust"), " in small print: value of Locust's own table for the same requests, if it differs by more than 1 %. Hover over a percentile for its 95 % interval.");
  const unsure = h("p", { class: "lr-fine" });
  const windows = context.live ? createWindowPicker(context) : null;
  const picker = createNamePicker(() => drawCurves());
  const overTime = createChart(context, { title: "Response times over time", term: "percentile", name: "percentiles-over-time", height: 280 });
  const plot = createChart(context, { title: "Percentile plot", term: "tail", name: "percentile-plot" });
  const density = createChart(context, { title: "Density", term: "density", name: "density" });
  const stages = createTable(context, { caption: "Response times by stage", columns: [...STAGE_START, ...STAGE_FIGURES], rowKey: (row) => `${row.start_s}|${row.end_s}|${row.users}` });
  const parts = createTable(context, { caption: "Response times of the halves of the run", columns: PART_COLUMNS, rowKey: (row) => row.part });
  const warmUp = h("p", { class: "lr-fine" });
  const levels = createTable(context, { caption: "Response times by number of concurrent users", columns: [...LEVEL_START, ...STAGE_FIGURES], rowKey: (row) => `${row.users_low}|${row.users_high}` });
  if (windows) overTime.onChart((chart) => windows.attach(chart));
  const root = h("div", { class: "lr-tab" }, windows?.root ?? null,
    h("h2", {}, "Exact response times"), table.root, unsure, rule,
    overTime.root,
    picker.root, h("div", { class: "lr-grid" }, plot.root, density.root),
    h("h2", {}, "Two halves: ", term(context, "steady", "steady state")), parts.root, warmUp,
    h("h2", {}, "By ", term(context, "stage", "stage")), stages.root,
    h("h2", {}, "By ", term(context, "concurrency", "concurrent users")), levels.root);

  function drawCurves() {
    const curves = last?.charts?.response ?? [];
    picker.update(curves);
    const curve = picker.current(curves);
    const all = curves[0];
    plot.update(curve && curve.n > 1 ? percentilePlot(curve, all) : "The plot of all percentiles appears with the second response.");
    density.update(curve && curve.n > 1 ? densityChart(curve, all) : "The density of the response times appears with the second response.");
  }

  /** @param {{summary: any, whole?: any}} data */
  function update({ summary, whole }) {
    last = summary;
    rounded = new Map((summary.charts?.as_locust ?? []).map((/** @type {any} */ row) => [fullName(row), row]));
    table.update(summary.response_times, "A row for each name appears with its first response.");
    const used = String(summary.rule ?? "");
    setText(ruleText, RULES[used] ?? used);
    const notes = (summary.response_times ?? []).map((/** @type {any} */ row) => row.interval_note);
    setText(unsure, `~ before a percentile: without a confidence interval. ${notes.at(-1) ?? ""}`.trim());
    setHidden(unsure, !notes.some(Boolean));
    setHidden(rule, !summary.response_times?.length);
    windows?.update(summary);
    const time = (whole ?? summary).charts?.over_time;
    overTime.update(time?.t_s.length > 1 ? percentilesOverTime(time, windows?.span() ?? null) : "p50, p95 and p99 over time begin two seconds after the first request.");
    drawCurves();
    const steady = summary.steady_state ?? {};
    parts.update(partsOf(steady), "The halves appear from 1,000 requests on.");
    setText(warmUp, warmUpOf(steady));
    const rows = summary.stages ?? [];
    stages.update(rows.filter((/** @type {any} */ row) => row.kind === "stage"), "A row appears once the planned number of users, rate or think time has held for ten seconds.");
    levels.update(rows.filter((/** @type {any} */ row) => row.kind === "level"), "A row for each number of users appears with its first 24 requests.");
  }

  return { root, update };
}

/** Return the hint with a percentile's interval, or why it has none, and the mark of one without. @param {string} key */
function interval(key) {
  return {
    hint: (/** @type {any} */ row) => (row[key] ? `95 % interval: ${row[key].map((/** @type {number} */ limit) => formatNumber(limit)).join(" to ")} ms` : row.interval_note ?? null),
    unsure: (/** @type {any} */ row) => !row[key] && Boolean(row.interval_note),
  };
}

/** Return the halves of the run and JMeter's window of samples. @param {any} steady @returns {any[]} */
function partsOf(steady) {
  const halves = (steady.halves ?? []).map((/** @type {any} */ half, /** @type {number} */ i) => ({ ...half, part: i ? "Second half" : "First half" }));
  const window = steady.jmeter_window;
  return window ? [...halves, { ...window, n: window.samples, part: `JMeter's window: the last ${formatNumber(window.samples, 0)}` }] : halves;
}

/** @param {any} steady @returns {string} */
function warmUpOf(steady) {
  if (!steady.halves?.length) return "";
  const p95 = (steady.pieces ?? []).map((/** @type {any} */ piece) => piece.p95_ms).filter((/** @type {any} */ one) => one !== null);
  const pieces = p95.length > 1 ? ` The p95 of ${p95.length} pieces of 20,000 requests is ${formatNumber(Math.min(...p95), 0)} to ${formatNumber(Math.max(...p95), 0)} ms.` : "";
  return (steady.mser5_rows ? `By MSER-5 the first ${formatNumber(steady.mser5_rows, 0)} requests (${formatDuration(steady.mser5_s)}) are warm-up.` : "By MSER-5 nothing is warm-up.") + pieces;
}

/** @type {import("./table.js").Column[]} */
const STAGE_START = [
  { key: "start_s", title: "From", kind: "name", format: (value) => formatClock(value) },
  { key: "end_s", title: "To", format: (value) => formatClock(value) },
  { key: "users", title: "Users", optional: true },
  { key: "planned_rate", title: "Planned", unit: "/s", optional: true },
  { key: "arrival_rate", title: "Arrivals", unit: "/s", optional: true },
  { key: "think_time_s", title: "Think time", unit: "s", optional: true },
];
/** @type {import("./table.js").Column[]} */
const PART_COLUMNS = [
  { key: "part", title: "Part", kind: "name" },
  { key: "n", title: "Requests", digits: 0 },
  { key: "rate", title: "Rate", unit: "/s", term: "rate" },
  { key: "mean_ms", title: "Mean", unit: "ms" },
  { key: "response_cov", title: "CoV", digits: 2 },
  { key: "p50_ms", title: "p50", unit: "ms", term: "percentile" },
  { key: "p90_ms", title: "p90", unit: "ms" },
  { key: "p95_ms", title: "p95", unit: "ms" },
  { key: "p99_ms", title: "p99", unit: "ms" },
];
/** @type {import("./table.js").Column[]} */
const LEVEL_START = [
  { key: "users", title: "Users", kind: "name", format: (value, row) => (row.users_high > row.users_low ? `${formatTick(row.users_low)} – ${formatTick(row.users_high)}` : formatTick(row.users_low)) },
  { key: "duration_s", title: "Time", format: formatDuration },
];
/** @type {import("./table.js").Column[]} */
const STAGE_FIGURES = [
  { key: "n", title: "Requests", digits: 0 },
  { key: "failures", title: "Failures", digits: 0 },
  { key: "rate", title: "Rate", unit: "/s", term: "rate" },
  { key: "cov", title: "Launch CoV", term: "cov", digits: 2 },
  { key: "mean_ms", title: "Mean", unit: "ms" },
  { key: "response_cov", title: "CoV", digits: 2 },
  { key: "p50_ms", title: "p50", unit: "ms", term: "percentile" },
  { key: "p90_ms", title: "p90", unit: "ms" },
  { key: "p95_ms", title: "p95", unit: "ms" },
  { key: "p99_ms", title: "p99", unit: "ms" },
];
