// Tab 4: health of the load generator.

import { baseOption, createChart, levelMark, lineSeries, timeAxis } from "./chart.js";
import { h, setChildren } from "./dom.js";
import { formatBytes, formatClock, formatNumber, formatShare, formatTick, isNumber } from "./format.js";
import { statusChip, createTable } from "./table.js";
import { createTiles } from "./tiles.js";
import { labelColors } from "./theme.js";
import { createDiagnosis } from "./verdict.js";

/** @type {import("./table.js").Column[]} */
const COLUMNS = [
  { key: "id", title: "Worker", kind: "name" },
  { key: "state", title: "State", kind: "text" },
  { key: "users", title: "Users", digits: 0 },
  { key: "cpu", title: "CPU", term: "cpu", format: (value) => formatShare(value, 0) },
  { key: "machine_cpu", optional: true, title: "Machine", term: "machine", format: (value) => formatShare(value, 0) },
  { key: "run_wait", optional: true, title: "Waits", term: "run_wait", format: (value) => formatShare(value) },
  { key: "steal", optional: true, title: "Steal", term: "steal", format: (value) => formatShare(value) },
  { key: "throttled", optional: true, title: "Throttled", term: "throttled", format: (value) => formatShare(value) },
  { key: "pressure", optional: true, title: "Pressure", term: "pressure", format: (value) => formatShare(value) },
  { key: "blocked", optional: true, title: "Blocked", term: "blocked", format: (value) => formatShare(value) },
  { key: "stopped", optional: true, title: "Stopped", term: "stopped", format: (value) => formatShare(value) },
  { key: "memory_bytes", title: "Memory", format: formatBytes },
  { key: "lag_p99_ms", title: "Lag p99", unit: "ms", term: "lag" },
  { key: "wake_p90_ms", optional: true, title: "Wake p90", unit: "ms", term: "wake" },
  { key: "lateness_p50_ms", optional: true, title: "Late p50", unit: "ms", term: "lateness" },
  { key: "lateness_p95_ms", optional: true, title: "Late p95", unit: "ms" },
  { key: "lateness_p99_ms", optional: true, title: "Late p99", unit: "ms" },
  { key: "rows", title: "Recorded", digits: 0 },
  { key: "lost", optional: true, title: "Lost", term: "lost", digits: 0 },
  { key: "clock_offset_ms", optional: true, title: "Clock", unit: "ms", term: "offset" },
  { key: "clock_uncertainty_ms", optional: true, title: "±", unit: "ms" },
];

const LATER = "The curve begins a few seconds after the start, with the second measurement of a worker.";

/** @param {any} context */
export function createGenerator(context) {
  const diagnosis = createDiagnosis(context);
  const findings = h("ul", { class: "lr-checks lr-findings", "aria-label": "Findings on the load generator" });
  const tiles = createTiles(context, [
    { title: "Requests recorded", value: ({ status }) => (isNumber(status?.rows) ? formatNumber(status.rows, 0) : null) },
    { title: "Lost", term: "lost", value: ({ status }) => (isNumber(status?.lost) ? formatNumber(status.lost, 0) : null) },
    { title: "Workers", value: ({ generator: g }) => (g.workers?.length ? formatNumber(g.workers.length, 0) : null) },
    { title: "Highest CPU", term: "cpu", value: ({ generator: g }) => highest(g.workers, "cpu", (value) => formatShare(value, 0)) },
    { title: "Highest lag p99", term: "lag", value: ({ generator: g }) => highest(g.workers, "lag_p99_ms", (value) => `${formatNumber(value)} ms`) },
    { title: "CPU of the target", value: ({ generator: g }) => (isNumber(g.target?.cpu) ? formatShare(g.target.cpu, 0) : null) },
    { title: "Disk of the target", value: ({ generator: g }) => (isNumber(g.target?.write_bytes_s) ? `${formatBytes(g.target.read_bytes_s + g.target.write_bytes_s)}/s` : null) },
    { title: "Busiest disk", value: ({ generator: g }) => (isNumber(g.target?.disk_busy) ? formatShare(g.target.disk_busy, 0) : null) },
  ]);
  const balance = h("p", { class: "lr-fine", "aria-label": "Balance of the launched requests" });
  const table = createTable(context, { caption: "Health of the load generator, by worker", columns: COLUMNS, rowKey: (row) => String(row.id) });
  const cpu = createChart(context, { title: "CPU over time", term: "cpu", name: "cpu-over-time", height: 260 });
  const lag = createChart(context, { title: "Event-loop lag over time", term: "lag", name: "lag-over-time", height: 260 });
  const root = h("div", { class: "lr-tab" }, diagnosis.root, findings, tiles.root, balance, h("h2", {}, "Workers"), table.root,
    h("div", { class: "lr-grid" }, cpu.root, lag.root));

  /** @param {{generator: any, summary?: any, status?: any}} data */
  function update(data) {
    const { generator } = data;
    diagnosis.update(data.summary?.verdict);
    const list = generator.findings ?? [];
    findings.hidden = !list.length;
    setChildren(findings, JSON.stringify(list), () => list.map((/** @type {any} */ one) =>
      h("li", { "data-status": one.status }, statusChip(one.status), h("div", {}, String(one.text)))));
    tiles.update(data);
    balance.hidden = !data.status?.balance;
    balance.textContent = data.status?.balance ?? "";
    table.update(generator.workers, "A row for each worker appears within seconds of the start of the run.");
    const series = generator.series ?? {};
    const drawn = (series.workers ?? []).length && (series.t_s ?? []).length > 1;
    cpu.update(drawn ? workerLines(series, "cpu", "CPU", (value) => formatShare(value, 0), levelOf(generator.bounds)) : LATER);
    lag.update(drawn ? workerLines(series, "lag_p99_ms", "ms", (value) => `${formatTick(value)} ms`, null) : LATER);
  }
  return { root, update };
}

/** @param {any[]} workers @param {string} key @param {(value: number) => string} format */
function highest(workers, key, format) {
  const values = (workers ?? []).map((worker) => worker[key]).filter(isNumber);
  return values.length ? format(Math.max(...values)) : null;
}

/** The bound of a red CPU, as a level of its chart. @param {any} bounds @returns {[number, string] | null} */
function levelOf(bounds) {
  const red = bounds?.cpu?.[1];
  return isNumber(red) ? [red, formatShare(red, 0)] : null;
}

/** One line for each worker. @param {any} series @param {string} key @param {string} name @param {(value: number) => string} unit @param {[number, string] | null} level */
function workerLines(series, key, name, unit, level) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t, workers } = series;
    const colors = labelColors(theme, workers.map((/** @type {any} */ worker) => String(worker.id)));
    const lines = workers.map((/** @type {any} */ worker, /** @type {number} */ i) => lineSeries(String(worker.id), t, worker[key] ?? [],
      workers.length === 1 ? theme.accent : colors.get(String(worker.id)) ?? theme.accent, i === 0 && level ? { markLine: levelMark(theme, level[0], level[1]) } : {}));
    const option = baseOption(theme, { legend: workers.length > 1,
      x: timeAxis(t),
      y: { type: "value", name, min: 0, axisLabel: { formatter: unit } }, unit, head: formatClock, series: lines });
    const last = workers.map((/** @type {any} */ worker) => (worker[key] ?? []).findLast(isNumber)).filter(isNumber);
    const [low, high] = [unit(Math.min(...last)), unit(Math.max(...last))];
    const text = !last.length ? "" : low === high ? `Now ${low}.` : `Now between ${low} and ${high}.`;
    return { option, text, columns: ["t_s", ...workers.map((/** @type {any} */ worker) => String(worker.id))],
      rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, ...workers.map((/** @type {any} */ worker) => worker[key]?.[i])]) };
  };
}
