// The page of a sweep, from one JSON document: claim, findings, every cell with its limits.

import { createChart } from "./chart.js";
import { MOST_IN_HALF, densitiesChart, feedbackChart, figureChart, groupsChart, overTimeChart, usersInWords } from "./charts-sweep.js";
import { h } from "./dom.js";
import { digitsFor, formatNumber, formatShare, formatTick, isNumber } from "./format.js";
import { drawOffline, factList, termList } from "./offline.js";
import { createCapacity } from "./tab-capacity.js";
import { createTable } from "./table.js";

const FIGURES = [
  { key: "rate", title: "Throughput", unit: "/s", term: "throughput" },
  { key: "mean_ms", title: "Mean", unit: "ms" },
  { key: "p50_ms", title: "p50", unit: "ms", term: "percentile" },
  { key: "p90_ms", title: "p90", unit: "ms" },
  { key: "p95_ms", title: "p95", unit: "ms" },
  { key: "p99_ms", title: "p99", unit: "ms" },
  { key: "launch_cov", title: "CoV of launches", term: "cov" },
  { key: "response_share", title: "R / (R + Z)" },
];
const PLAIN = [
  { key: "sdev_ms", title: "sdev of R", unit: "ms", term: "sdev" },
  { key: "cov", title: "CoV of R", digits: 2 },
  { key: "generator_cpu", title: "CPU generator", unit: "cores", digits: 2 },
  { key: "server_cpu", title: "CPU server", unit: "cores", digits: 2 },
];
const MOST_NAMED = 4;
const TERMS_USED = ["throughput", "percentile", "cov", "sdev", "groups", "verdict", "knee", "law", "band", "littles", "concurrency"];

/** @param {HTMLElement} root @param {any} data the document of sweep/page.py */
export function renderReport(root, data) {
  drawOffline(root, (context) => [
    header(data), targets(data), failures(data), charts(context, data), cells(context, data), groups(context, data), feedback(context, data),
    differences(context, data), windows(context, data), overTime(context, data), capacity(context, data), termList(TERMS_USED),
  ]);
}

/** @param {any} data */
function header(data) {
  const left = data.runs_planned - data.runs_done;
  return h("header", {}, h("h1", {}, data.title),
    factList([...data.facts, ...(data.article ? [["After", data.article]] : [])]),
    data.claim && h("p", { class: "lr-lead" }, `The article: ${data.claim}`),
    left > 0 && h("p", { class: "lr-notice" }, `${formatNumber(left, 0)} of ${formatNumber(data.runs_planned, 0)} runs are not done; the figures below are of the others.`),
    h("p", { class: "lr-lead" }, [data.how_sure, data.caution].filter(Boolean).join(" ")));
}

/** @param {string} title @param {...(Node | null | false)} children */
function part(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", { class: "lr-part" }, title), ...children.filter((child) => child !== null));
}

/** Largest number of users at which each target holds. @param {any} data */
function targets(data) {
  if (!data.targets.length) return null;
  return part("Users by target", h("ul", { class: "lr-findings" }, ...data.targets.map((/** @type {any} */ row) => h("li", {}, sentence(row)))));
}

/** @param {any} row */
function sentence(row) {
  const who = row.line === "all" ? "" : `${row.line}: `;
  if (row.status === "met by all") return `${who}${row.target} holds at every number of users measured, up to ${formatTick(row.largest_measured)}.`;
  if (row.status === "met by none") return `${who}${row.target} holds at none of the numbers of users measured.`;
  const [low, high] = [row.low, row.high].map((limit) => (isNumber(limit) ? formatTick(Math.round(limit)) : "unknown"));
  const limits = isNumber(row.low) || isNumber(row.high) ? `95 % interval ${low} to ${high}` : "no interval: run it longer, or at more numbers of users";
  return `${who}${row.target} holds up to about ${formatTick(Math.round(row.users))} users (${limits}).`;
}

/** @param {any} data */
function failures(data) {
  if (!data.failures.length) return null;
  return part("Runs without figures", h("ul", { class: "lr-warnings" }, ...data.failures.map((/** @type {string} */ line) => h("li", {}, line))));
}

/** @param {any} context @param {any} data */
function charts(context, data) {
  if (data.lines.every((/** @type {any} */ line) => line.cells.length < 2)) return densities(context, data);
  const of = (/** @type {string} */ key, /** @type {string} */ title, /** @type {any} */ y) => {
    const chart = createChart(context, { title, name: `sweep-${key}` });
    chart.update(figureChart(data, key, y));
    return chart.root;
  };
  const against = data.x === "users" ? "against users" : "against think time";
  const has = (/** @type {string} */ key) => data.cells.some((/** @type {any} */ cell) => isNumber(cell[key]));
  const ms = { name: "ms", unit: "ms", min: 0 };
  return part(`Figures ${against}`, h("div", { class: "lr-grid" },
    of("p50_ms", `p50 ${against}`, ms), of("p90_ms", `p90 ${against}`, ms), of("p99_ms", `p99 ${against}`, ms),
    of("rate", `Throughput ${against}`, { name: "requests / s", unit: "/s", min: 0 }),
    of("launch_cov", `CoV of the launches ${against}`, { name: "CoV", level: [1, "independent users"] }),
    has("response_share") ? of("response_share", `R / (R + Z) ${against}`, { name: "share", min: 0 }) : null,
    of("generator_cpu", `CPU of the generator ${against}`, { name: "cores", unit: "cores", min: 0 }),
    has("server_cpu") ? of("server_cpu", `CPU of the server ${against}`, { name: "cores", unit: "cores", min: 0 }) : null,
    ...densityCharts(context, data, false)), ...densityCharts(context, data, true));
}

/** @param {any} context @param {any} data */
function densities(context, data) {
  return part("Densities", h("div", { class: "lr-grid" }, ...densityCharts(context, data, false)), ...densityCharts(context, data, true));
}

/** Charts with few curves, or the wide ones with many. @param {any} context @param {any} data @param {boolean} wide */
function densityCharts(context, data, wide) {
  return data.densities.filter((/** @type {any} */ density) => (density.curves.length > MOST_IN_HALF) === wide).map((/** @type {any} */ density) => {
    const chart = createChart(context, { title: `Density at ${usersInWords(density.users)}`, name: `sweep-density-${density.users}`, ...(wide ? { height: 360 } : {}) });
    chart.update(densitiesChart(density));
    return wide ? h("div", { class: "lr-apart" }, chart.root) : chart.root;
  });
}

/** Return a format of values with their limits, with the same decimals in a column. @param {any[]} rows @param {string} key */
function withLimits(rows, key) {
  const digits = digitsFor(rows.map((row) => row[key]));
  return (/** @type {any} */ value, /** @type {any} */ row) => {
    const [low, high] = [row[`${key}_low`], row[`${key}_high`]];
    const range = isNumber(low) || isNumber(high) ? ` (${formatNumber(low, digits)} to ${formatNumber(high, digits)})` : "";
    return formatNumber(value, digits) + (isNumber(value) ? range : "");
  };
}

/** @param {any} context @param {any} data */
function cells(context, data) {
  const some = (/** @type {string} */ key) => data.cells.some((/** @type {any} */ cell) => cell[key] !== null && cell[key] !== "");
  const columns = [
    { key: "variant", title: "Variant", kind: "name" }, { key: "users", title: "Users" }, { key: "think_time_s", title: "Think time", unit: "s", format: formatTick },
    { key: "verdict", title: "Verdict", kind: "status", term: "verdict", format: (/** @type {any} */ _, /** @type {any} */ row) => verdictText(row) },
    { key: "runs", title: "Runs" }, { key: "n", title: "Requests" }, { key: "failed_share", title: "Failed", format: (/** @type {any} */ value) => formatShare(value) },
    ...FIGURES.map((column) => ({ ...column, format: withLimits(data.cells, column.key) })), ...PLAIN,
  ].filter((column) => some(column.key));
  const table = createTable(context, { caption: "Cells", columns: /** @type {any} */ (columns), rowKey: (row) => `${row.variant}|${row.users}|${row.think_time_s}` });
  table.update(data.cells.map((/** @type {any} */ cell) => ({ ...cell, status: cell.verdict })));
  const reasons = alike(data.cells.filter((/** @type {any} */ cell) => cell.verdict !== "green"), naming(data.cells));
  return part("Every cell", table.root, h("p", { class: "lr-fine" }, "In brackets: 95 % limits. R is the response time, Z the think time."),
    reasons.length > 0 && h("ul", { class: "lr-findings" }, ...reasons.map((text) => h("li", {}, text))));
}

/** Return a function that names a cell by the keys in which the cells differ. @param {any[]} cells */
function naming(cells) {
  const differs = (/** @type {string} */ key) => cells.some((cell) => cell[key] !== cells[0][key]);
  return (/** @type {any} */ cell) => [differs("variant") && cell.variant, differs("users") && usersInWords(cell.users),
    differs("think_time_s") && isNumber(cell.think_time_s) && `Z ${formatTick(cell.think_time_s)} s`].filter(Boolean).join(", ");
}

/**
 * Return each verdict's sentence with its cells; sentences that differ in figures only stand once.
 * @param {any[]} cells @param {(cell: any) => string} name
 */
function alike(cells, name) {
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const cell of cells) {
    const kind = String(cell.verdict_sentence).replace(/[\d.,]*\d/g, "#");
    groups.set(kind, [...(groups.get(kind) ?? []), cell]);
  }
  return [...groups.values()].map((group) => {
    const names = group.map(name).filter(Boolean);
    const where = names.length > MOST_NAMED ? `${names[0]} and ${names.length - 1} other cells` : names.join("; ");
    const alone = group.every((cell) => cell.verdict_sentence === group[0].verdict_sentence);
    return `${where && `${where}: `}${group[0].verdict_sentence}${alone ? "" : " (Figures of the first.)"}`;
  });
}

/** @param {any} row */
function verdictText(row) {
  const counts = Object.entries(row.verdicts);
  return counts.length < 2 ? "" : counts.map(([status, count]) => `${count} ${status}`).join(", ");
}

/** @param {any} context @param {any} data */
function groups(context, data) {
  if (!data.groups) return null;
  const { columns, sizes } = data.groups;
  const table = createTable(context, { caption: "CoV by number of users", rowKey: (row) => String(row.users), columns: [
    { key: "users", title: "Users" },
    ...columns.map((/** @type {any} */ column, /** @type {number} */ i) => ({ key: String(i), title: column.name, format: (/** @type {any} */ value, /** @type {any} */ row) => spread(value, column.cov[row.users]) })) ] });
  table.update(sizes.map((/** @type {number} */ size) => ({ users: size, ...Object.fromEntries(columns.map((/** @type {any} */ column, /** @type {number} */ i) => [String(i), column.cov[size]?.cov ?? null])) })));
  const chart = createChart(context, { title: "CoV by number of users", term: "groups", name: "sweep-groups", height: 380 });
  chart.update(groupsChart(data.groups));
  return part("CoV by number of users", chart.root, h("div", { class: "lr-apart" }, table.root), h("p", { class: "lr-fine" }, "±: half of the 95 % interval. Few users make few launches in a short run."));
}

/** Write a CoV with its uncertainty. @param {any} value @param {any} group */
function spread(value, group) {
  const known = isNumber(group?.cov_high) && isNumber(group?.cov_low);
  return formatNumber(value, 2) + (known ? ` ±${formatNumber((group.cov_high - group.cov_low) / 2, 2)}` : "");
}

/** @param {any} context @param {any} data */
function feedback(context, data) {
  if (!data.feedback) return null;
  const chart = createChart(context, { title: "CoV of the launches against R / (R + Z)", term: "cov", name: "sweep-feedback", height: 360 });
  chart.update(feedbackChart(data));
  return part("Feedback", chart.root);
}

/** @param {any} context @param {any} data */
function differences(context, data) {
  if (!data.differences.length) return null;
  const table = createTable(context, { caption: "Differences from the first variant", rowKey: (row) => `${row.variant}|${row.users}|${row.think_time_s}|${row.figure}`, columns: [
    { key: "variant", title: "Variant", kind: "name" }, { key: "users", title: "Users" },
    ...(data.differences.some((/** @type {any} */ row) => row.think_time_s) ? [{ key: "think_time_s", title: "Think time", unit: "s", format: formatTick }] : []),
    { key: "figure", title: "Figure", kind: "text", format: (key) => nameOf(String(key)) },
    { key: "a", title: data.cells[0].variant, format: figure }, { key: "b", title: "This variant", format: figure },
    { key: "difference", title: "Difference", format: (_, row) => figure(row.difference) + (isNumber(row.low) && isNumber(row.high) ? ` (${figure(row.low)} to ${figure(row.high)})` : "") },
    { key: "verdict", title: "Result", kind: "text", format: (verdict) => (String(verdict).startsWith("no difference") ? "no difference shown" : String(verdict)) } ] });
  table.update(data.differences);
  return part(`Differences from ${data.cells[0].variant}`, table.root, h("p", { class: "lr-fine" }, "Each interval is of 95 % by itself: of twenty equal figures, one seems different by chance if nothing varies between runs. Where runs vary, it holds from five runs a side on."));
}

/** Write a figure's title with its unit. @param {string} key */
function nameOf(key) {
  const found = FIGURES.find((one) => one.key === key);
  return found ? [found.title, found.unit].filter(Boolean).join(" ") : key;
}

/** @param {any} value */
function figure(value) {
  return formatNumber(value).replace("-", "−");
}

/** @param {any} context @param {any} data */
function windows(context, data) {
  if (!data.windows.length) return null;
  /** @type {Record<string, string>} */
  const kinds = { exact: "all samples, exact", locust: "all samples, as Locust shows them", window: "last samples, as JMeter's dashboard", piece: "a piece by itself" };
  const parts = data.windows.map((/** @type {any} */ run) => {
    const [exact] = run.value;
    const off = (/** @type {string} */ key) => (/** @type {any} */ value, /** @type {any} */ row) => formatNumber(value)
      + (row.kind === "exact" || !exact[key] ? "" : ` (${value >= exact[key] ? "+" : "−"}${formatNumber(Math.abs(100 * (value / exact[key] - 1)), 1)} %)`);
    const table = createTable(context, { caption: `Percentiles from parts of the samples, ${run.name}`, rowKey: (row) => `${row.kind}|${row.samples}|${row.from_row}`, columns: [
      { key: "kind", title: "Computed from", kind: "name", format: (value) => kinds[value] }, { key: "samples", title: "Samples" }, { key: "from_row", title: "From sample" },
      { key: "mean_ms", title: "Mean", unit: "ms" }, ...["p50", "p90", "p95", "p99"].map((name) => ({ key: `${name}_ms`, title: name, unit: "ms", format: off(`${name}_ms`) })) ] });
    table.update(run.value);
    return h("div", {}, h("h3", { class: "lr-named" }, run.name), table.root);
  });
  return part("Percentiles from parts of the samples", ...parts, h("p", { class: "lr-fine" }, "In brackets: difference from the exact figure."));
}

/** @param {any} context @param {any} data */
function overTime(context, data) {
  if (!data.over_time.length) return null;
  return part("Over time", ...data.over_time.map((/** @type {any} */ run, /** @type {number} */ i) => {
    const [rate, times] = [["rate", "Rate"], ["times", "Response times"]].map(([what, title]) => {
      const chart = createChart(context, { title: `${title}, ${run.name}`, name: `sweep-${what}-${i}` });
      chart.update(overTimeChart(run.value, /** @type {any} */ (what)));
      return chart.root;
    });
    return h("div", {}, h("div", { class: "lr-grid" }, rate, times), h("div", { class: "lr-apart" }, parts(context, run.name, of(data.parts, run.name))));
  }));
}

/** Return the value of one run in a list. @param {{name: string, value: any}[]} runs @param {string} name */
function of(runs, name) {
  return runs.find((run) => run.name === name)?.value;
}

/** Table of the parts of a run with equal numbers of requests. @param {any} context @param {string} name @param {any[] | undefined} rows */
function parts(context, name, rows) {
  if (!rows?.length) return null;
  const table = createTable(context, { caption: `Parts of the run with equal numbers of requests, ${name}`, rowKey: (row) => String(row.start_s), columns: [
    { key: "start_s", title: "From", unit: "s", digits: 0 }, { key: "duration_s", title: "Length", unit: "s", digits: 1 }, { key: "n", title: "Requests" },
    { key: "rate", title: "Throughput", unit: "/s", format: withLimits(rows, "rate") },
    ...["p50", "p90", "p95"].map((key) => ({ key: `${key}_ms`, title: key, unit: "ms", format: withLimits(rows, `${key}_ms`) })) ] });
  table.update(rows);
  const words = "The run in parts with equal numbers of requests. In brackets: 95 % limits; – if too few requests set none.";
  return h("div", {}, table.root, h("p", { class: "lr-fine" }, words));
}

/** @param {any} context @param {any} data */
function capacity(context, data) {
  if (!data.capacity.length) return null;
  return part("Capacity", ...data.capacity.map((/** @type {any} */ run) => {
    const view = createCapacity(context);
    view.update({ summary: { capacity: run.value } });
    const names = createTable(context, { caption: `Requests by name, ${run.name}`, columns: [
      { key: "label", title: "Name", kind: "name", format: (_, row) => `${row.method} ${row.label}`.trim() }, { key: "n", title: "Requests" }, { key: "failures", title: "Failed" },
      { key: "mean_ms", title: "Mean", unit: "ms" }, { key: "cov", title: "CoV", digits: 2 }, { key: "p50_ms", title: "p50", unit: "ms" }, { key: "p95_ms", title: "p95", unit: "ms" }, { key: "p99_ms", title: "p99", unit: "ms" } ] });
    names.update(of(data.names, run.name) ?? []);
    return h("div", {}, data.capacity.length > 1 && h("h3", { class: "lr-named" }, run.name), view.root, h("h3", { class: "lr-named" }, "By name"), names.root);
  }));
}
