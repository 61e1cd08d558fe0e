// The page of a comparison, from one JSON document: conclusions, then every difference with its limits.

import { baseOption, createChart, lineSeries } from "./chart.js";
import { h } from "./dom.js";
import { formatNumber, formatShare, formatTick, isNumber } from "./format.js";
import { drawOffline, factList, part, termList } from "./offline.js";
import { createTable, statusChip } from "./table.js";

const STATUS_OF = /** @type {Record<string, string>} */ ({ slower: "red", more: "red", mixed: "amber", faster: "green", less: "green" });
const TERMS_USED = ["percentile", "band", "rate", "cov", "verdict", "concurrency"];

/** @type {import("./table.js").Column[]} */
const RUNS = [
  { key: "name", title: "Run", kind: "name" },
  { key: "runs", title: "Runs", digits: 0 },
  { key: "n", title: "Requests", digits: 0 },
  { key: "rate", title: "Rate", unit: "/s", term: "rate" },
  { key: "failures", title: "Failed", format: (value) => formatShare(value, 2) },
  { key: "cov", title: "CoV of launches", term: "cov", digits: 2 },
  { key: "pattern", title: "Launch pattern", kind: "text", term: "verdict" },
];
/** @type {import("./table.js").Column[]} */
const DIFFERENCES = [
  { key: "who", title: "Name", kind: "name" },
  { key: "what", title: "Figure", kind: "text", term: "percentile" },
  { key: "a", title: "Baseline", unit: "ms" },
  { key: "b", title: "This", unit: "ms" },
  { key: "difference", title: "Difference", unit: "ms" },
  { key: "low", title: "From", unit: "ms", term: "band" },
  { key: "high", title: "To", unit: "ms" },
  { key: "ratio", title: "Change", format: (value) => (isNumber(value) ? `${value > 1 ? "+" : ""}${formatNumber(100 * (value - 1), 1)} %` : "–") },
  { key: "verdict", title: "", kind: "text" },
];

/** @param {HTMLElement} root @param {any} data the document of `locust-realism compare` with `title` and `force` */
export function renderReport(root, data) {
  drawOffline(root, (context) => [
    h("header", {}, h("h1", {}, String(data.title)), facts(data)), conclusions(data),
    part("Runs", tableOf(context, "Runs", RUNS, data.runs.map((/** @type {any} */ run) => ({ ...run, pattern: [...new Set(run.verdict.filter(Boolean))].join(", ") })), (row) => row.name)),
    ...data.candidates.filter((/** @type {any} */ each) => shown(each, data)).map((/** @type {any} */ each) => differences(context, data, each)),
    levels(context, data), termList(TERMS_USED),
  ]);
}

const shown = (/** @type {any} */ each, /** @type {any} */ data) => each.alike.status !== "refused" || data.force;

/** @param {any} context @param {string} caption @param {import("./table.js").Column[]} columns @param {any[]} rows @param {(row: any) => string} rowKey */
function tableOf(context, caption, columns, rows, rowKey) {
  const table = createTable(context, { caption, columns, rowKey });
  table.update(rows);
  return table.root;
}

/** @param {any} data */
function facts(data) {
  const pairs = [["Baseline", data.baseline], ["All intervals together", formatShare(data.confidence, 0)], ["A difference counts beyond", formatShare(data.tolerance, 1)]];
  return factList(pairs);
}

/** Conclusions with their reservations, thresholds, warnings, agreement of repeated runs. @param {any} data */
function conclusions(data) {
  const notes = [...(data.warnings ?? []), ...(data.agreement ?? []).map((/** @type {any} */ each) => each.sentence)];
  return h("section", { "aria-label": "Conclusion" },
    h("ul", { class: "lr-findings" }, ...data.candidates.map((/** @type {any} */ each) => h("li", {},
      statusChip(shown(each, data) ? STATUS_OF[each.conclusion] ?? "info" : "amber", shown(each, data) ? each.conclusion : "not comparable"), ` ${each.sentence}`,
      each.alike.reasons.length ? h("ul", {}, ...each.alike.reasons.map((/** @type {string} */ reason) => h("li", {}, reason))) : null)),
    ...(data.thresholds ?? []).map((/** @type {any} */ one) => h("li", {}, statusChip(one.failed ? "red" : "green", one.failed ? "failed" : "ok"), ` ${one.name}: ${one.line.trim()}`))),
    ...notes.map((one) => h("p", { class: "lr-fine" }, one)));
}

/** @param {any} context @param {any} data @param {any} each */
function differences(context, data, each) {
  const rows = each.rows.map((/** @type {any} */ row) => ({ ...row, who: `${row.method} ${row.label}`.trim(), what: row.figure.replace("_ms", "") }));
  const pair = (/** @type {string} */ what, /** @type {any} */ row, /** @type {(x: any) => string} */ form) => h("p", {}, `${what}: ${form(row.a)} to ${form(row.b)} (${row.verdict}).`);
  return part(`${each.name} against ${data.baseline}`,
    pair("Throughput", each.throughput, (x) => `${formatNumber(x, 2)}/s`), pair("Failures", each.failures, (x) => formatShare(x, 2)),
    tableOf(context, `Response times of ${each.name} against ${data.baseline}`, DIFFERENCES, rows, (row) => `${row.who}\n${row.what}`));
}

/** Table and chart by number of users: a line and a group of columns for each side. @param {any} context @param {any} data */
function levels(context, data) {
  const rows = data.levels ?? [];
  if (!rows.length) return null;
  const names = data.runs.map((/** @type {any} */ run) => run.name);
  /** @type {import("./table.js").Column[]} */
  const columns = [{ key: "users", title: "Users", kind: "name", term: "concurrency" }, ...names.flatMap((/** @type {string} */ name, /** @type {number} */ i) => [
    { key: `rate${i}`, title: `${name}, rate`, unit: "/s" }, { key: `p50_ms${i}`, title: "p50", unit: "ms" }, { key: `p95_ms${i}`, title: "p95", unit: "ms" },
    ...(i ? [{ key: `verdict${i}`, title: "p95 is", kind: /** @type {"text"} */ ("text") }] : [])])];
  const cells = rows.map((/** @type {any} */ row) => Object.assign({ users: row.fewest === row.most ? formatTick(row.most) : `${formatTick(row.fewest)} – ${formatTick(row.most)}` },
    ...row.sides.map((/** @type {any} */ side, /** @type {number} */ i) => Object.fromEntries([...["rate", "p50_ms", "p95_ms"].map((key) => [`${key}${i}`, side?.[key] ?? null]), [`verdict${i}`, side?.verdict ?? null]]))));
  const chart = createChart(context, { title: "p95 by number of concurrent users", term: "concurrency", name: "p95-by-users" });
  chart.update(levelsChart(rows, names));
  return part("By number of concurrent users", tableOf(context, "By number of concurrent users", columns, cells, (row) => row.users), chart.root);
}

/** @param {any[]} rows @param {string[]} names */
function levelsChart(rows, names) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const users = rows.map((row) => (row.fewest + row.most) / 2);
    const colours = [theme.accent, theme.orange, theme.muted, theme.bar];
    const series = names.map((name, i) => lineSeries(name, users, rows.map((row) => row.sides[i]?.p95_ms ?? null), colours[i % colours.length], { showSymbol: true }));
    const option = baseOption(theme, { x: { type: "value", name: "Concurrent users", min: 0, axisLabel: { formatter: formatTick } }, y: { type: "value", name: "p95 (ms)", min: 0 },
      unit: (value) => `${formatNumber(value)} ms`, head: (x) => `${formatTick(x)} users`, series });
    return { option, text: `p95 of ${names.join(" and ")} at ${rows.length} numbers of concurrent users.`, columns: ["users", ...names],
      rows: rows.map((row, at) => [users[at], ...row.sides.map((/** @type {any} */ side) => side?.p95_ms ?? null)]) };
  };
}
