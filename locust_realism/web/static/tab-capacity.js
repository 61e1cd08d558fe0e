// Tab 5: capacity, the number of users that the system holds.

import { bandSeries, baseOption, createChart, lineSeries } from "./chart.js";
import { h, setChildren, setHidden, setText } from "./dom.js";
import { formatTick, isNumber } from "./format.js";
import { term } from "./hints.js";
import { createTable } from "./table.js";

const EMPTY = "This tab shows how many users the system holds, once the run has been at more than one number of users. "
  + "Ramp slowly, or raise the number of users in steps with Edit, and hold each for a minute or more; four levels give a curve.";

/** @type {import("./table.js").Column[]} */
const COLUMNS = [
  { key: "users", title: "Users", term: "concurrency" },
  { key: "n", title: "Requests", digits: 0 },
  { key: "duration_s", title: "Time", unit: "s" },
  { key: "rate", title: "Throughput", unit: "/s", term: "throughput" },
  { key: "failures", title: "Failures", digits: 0 },
  { key: "mean_ms", title: "Mean", unit: "ms" },
  { key: "response_cov", title: "CoV", digits: 2 },
  { key: "p50_ms", title: "p50", unit: "ms", term: "percentile" },
  { key: "p95_ms", title: "p95", unit: "ms" },
  { key: "p99_ms", title: "p99", unit: "ms" },
  { key: "think_ms", title: "Think time", unit: "ms" },
  { key: "little_ratio", title: "X (R + Z) / N", term: "littles", digits: 2 },
];

/** @param {any} context */
export function createCapacity(context) {
  const answer = h("p", { class: "lr-answer", role: "status" });
  const warnings = h("ul", { class: "lr-warnings" });
  const empty = h("p", { class: "lr-empty" }, EMPTY);
  const throughput = createChart(context, { title: "Throughput against users", term: "law", name: "throughput-by-users", legend: ["knee", "band"] });
  const times = createChart(context, { title: "p95 against users", term: "percentile", name: "p95-by-users", legend: ["knee"] });
  const table = createTable(context, { caption: "Throughput and response times by number of users", columns: COLUMNS, rowKey: (row) => String(row.users) });
  const full = h("div", {}, answer, warnings, h("div", { class: "lr-grid" }, throughput.root, times.root),
    h("h2", {}, "By ", term(context, "concurrency", "number of users")), table.root);
  const root = h("div", { class: "lr-tab" }, empty, full);

  /** @param {{summary: any}} data */
  function update({ summary }) {
    const capacity = summary.capacity ?? {};
    const levels = capacity.levels ?? [];
    setHidden(empty, levels.length > 1);
    setHidden(full, levels.length < 2);
    if (levels.length < 2) return;
    setText(answer, String(capacity.explanation ?? ""));
    const lines = capacity.warnings ?? [];
    setHidden(warnings, !lines.length);
    setChildren(warnings, JSON.stringify(lines), () => lines.map((/** @type {any} */ one) => h("li", {}, String(one))));
    throughput.update(throughputChart(capacity));
    times.update(timesChart(capacity));
    table.update(levels);
  }
  return { root, update };
}

const plain = (/** @type {number} */ value) => formatTick(Number(value.toPrecision(3)));
const usersAxis = { type: "value", name: "Concurrent users", min: 0, axisLabel: { formatter: formatTick } };
const usersHead = (/** @type {number} */ users) => `${plain(users)} users`;

/** A vertical line at the knee. @param {import("./theme.js").Theme} theme @param {any} capacity */
function kneeMark(theme, capacity) {
  const at = capacity.knee?.users;
  if (!isNumber(at)) return {};
  return { markLine: { silent: true, symbol: "none", lineStyle: { color: theme.orange, type: "dashed", width: 1.5 },
    label: { formatter: `knee ${plain(at)}`, color: theme.orange, fontSize: 11 }, data: [{ xAxis: at }] } };
}

/** @param {any} capacity */
function throughputChart(capacity) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { levels, usl } = capacity;
    const users = levels.map((/** @type {any} */ row) => row.users);
    const curve = usl?.curve;
    const series = curve
      ? [...bandSeries("Fitted law, 95 %", curve.users, curve.low, curve.high, theme.band),
        lineSeries("Fitted law", curve.users, curve.rate, theme.muted, { lineStyle: { type: "dashed", width: 1.5, color: theme.muted } })]
      : [];
    series.push({ ...lineSeries("Measured", users, levels.map((/** @type {any} */ row) => row.rate), theme.accent, { showSymbol: true, lineStyle: { width: curve ? 0 : 2, color: theme.accent }, symbolSize: 8, symbol: "circle" }), ...kneeMark(theme, capacity) });
    const option = baseOption(theme, { x: usersAxis, y: { type: "value", name: "Requests / s", min: 0 }, unit: plain, head: usersHead, series });
    const top = Math.max(...levels.map((/** @type {any} */ row) => row.rate));
    return { option, text: `The highest measured throughput is ${plain(top)} requests per second, at ${plain(levels.find((/** @type {any} */ row) => row.rate === top).users)} users.`,
      columns: ["users", "n", "rate", "rate_error"], rows: levels.map((/** @type {any} */ row) => [row.users, row.n, row.rate, row.rate_error]) };
  };
}

/** @param {any} capacity */
function timesChart(capacity) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { levels } = capacity;
    const users = levels.map((/** @type {any} */ row) => row.users);
    const line = (/** @type {string} */ name, /** @type {string} */ key, /** @type {string} */ color, /** @type {any} */ own = {}) =>
      lineSeries(name, users, levels.map((/** @type {any} */ row) => row[key]), color, { showSymbol: true, ...own });
    const option = baseOption(theme, { x: usersAxis, y: { type: "value", name: "ms", min: 0 }, unit: (value) => `${plain(value)} ms`, head: usersHead,
      series: [line("p50", "p50_ms", theme.accent), line("p95", "p95_ms", theme.orange, kneeMark(theme, capacity))] });
    const [first, last] = [levels[0], levels.at(-1)];
    return { option, text: `p95 is ${plain(first.p95_ms)} ms at ${plain(first.users)} users and ${plain(last.p95_ms)} ms at ${plain(last.users)}.`,
      columns: ["users", "p50_ms", "p90_ms", "p95_ms", "p99_ms"], rows: levels.map((/** @type {any} */ row) => [row.users, row.p50_ms, row.p90_ms, row.p95_ms, row.p99_ms]) };
  };
}
