// The offline page of a fitted server log, from the document of `locust-realism fit`.

import { bandSeries, baseOption, createChart, lineSeries } from "./chart.js";
import { h } from "./dom.js";
import { formatClock, formatDuration, formatNumber, formatShare, formatTick } from "./format.js";
import { drawOffline, factList, part } from "./offline.js";
import { createTable } from "./table.js";
import { createTiles } from "./tiles.js";

const HOUR = 3600;
const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const MOST_CURVES = 3;

const TILES = [
  { title: "Requests", value: (/** @type {any} */ data) => formatNumber(data.source.requests, 0) },
  { title: "Sessions begun", value: (/** @type {any} */ data) => formatNumber(data.arrivals.sessions, 0) },
  { title: "Sessions an hour", value: (/** @type {any} */ data) => formatNumber(perHour(data.arrivals.mean_rate)) },
  { title: "Concurrent sessions", value: (/** @type {any} */ data) => formatNumber(data.sessions.concurrent) },
  { title: "Requests in a session", value: (/** @type {any} */ data) => formatNumber(data.sessions.mean_length) },
  { title: "Length of a session", value: (/** @type {any} */ data) => formatDuration(data.sessions.mean_duration_s) },
  { title: "Between requests", value: (/** @type {any} */ data) => formatDuration(data.think_times.mean_s) },
];

/** @type {import("./table.js").Column[]} */
const FAMILIES = [
  { key: "call", title: "Distribution", kind: "name" },
  { key: "bic_behind", title: "BIC behind the best", digits: 1 },
  { key: "ks", title: "KS distance", digits: 4 },
  { key: "ad", title: "A²", digits: 2 },
];

/** @type {import("./table.js").Column[]} */
const NAMES = [
  { key: "name", title: "Name", kind: "name" },
  { key: "method", title: "Method", kind: "text" },
  { key: "n", title: "Requests", digits: 0 },
  { key: "share", title: "Share", format: (value) => formatShare(value, 2) },
  { key: "from", title: "From", format: (_, row) => formatShare(row.share_interval[0], 2) },
  { key: "to", title: "To", format: (_, row) => formatShare(row.share_interval[1], 2) },
  { key: "failed", title: "Failed", format: (_, row) => formatShare(row.n ? row.failures / row.n : null, 2) },
];

/**
 * Draw the page into an element; needs ECharts as `window.echarts` for its charts, and shows their texts without it.
 * @param {HTMLElement} root @param {any} data the document with `title` and, in each family, `call`
 */
export function renderReport(root, data) {
  drawOffline(root, (context) => {
    const tiles = createTiles(context, TILES);
    tiles.update(data);
    return [h("header", {}, h("h1", {}, String(data.title)), facts(data)), tiles.root, warnings(data),
      part("Session starts", ...arrivals(context, data)), part("Times between the requests of a session", ...times(context, data)),
      part("Requests", ...requests(context, data))];
  });
}

/** @param {any} data */
function facts(data) {
  const { source, settings } = data;
  const left = Object.entries(source.left_out).map(([reason, n]) => `${formatNumber(n, 0)} of ${reason}`);
  const pairs = [["Files", source.files.join(", ")], ["From", source.start], ["To", source.end], ["Clock", source.zone],
    ["A session ends after", formatDuration(settings.gap_s)], ["Visitor", settings.visitor], ["Left out", left.join(", ") || "nothing"]];
  return factList(pairs);
}

/** @param {any} data */
function warnings(data) {
  return h("ul", { class: "lr-warnings", hidden: !data.warnings.length }, ...data.warnings.map((/** @type {any} */ one) => h("li", {}, String(one))));
}

/** @param {any} context @param {any} data */
function arrivals(context, data) {
  const byDay = createChart(context, { title: "By time of day", name: "rate-by-time-of-day" });
  byDay.update(rateChart(data.arrivals.by_time_of_day, data.arrivals.bin_s, formatClockOfDay, 24 * HOUR, 3 * HOUR));
  const byWeek = createChart(context, { title: "By time of the week", name: "rate-by-time-of-week" });
  const week = data.arrivals.by_time_of_week;
  byWeek.update(week.length ? rateChart(week, HOUR, formatTimeOfWeek, 7 * 24 * HOUR, 24 * HOUR) : "The log covers one day only.");
  return [byDay.root, byWeek.root];
}

/** Steps of a rate with their interval. @param {any[]} rows @param {number} width @param {(x: number) => string} clock @param {number} max @param {number} interval */
function rateChart(rows, width, clock, max, interval) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    // Both ends of each step make lines and band steps, too.
    const x = rows.flatMap((row) => [row.start_s, row.start_s + width]);
    const twice = (/** @type {(row: any) => number | null} */ of) => rows.flatMap((row) => [of(row), of(row)]);
    const rate = twice((row) => perHour(row.rate));
    const low = twice((row) => perHour(row.rate_interval[0]));
    const high = twice((row) => perHour(row.rate_interval[1]));
    const option = baseOption(theme, {
      x: { type: "value", min: 0, max, interval, axisLabel: { formatter: clock } },
      y: { type: "value", name: "Sessions an hour", min: 0, axisLabel: { formatter: formatTick } },
      unit: formatNumber, head: clock,
      series: [...bandSeries("Interval of the mean", x, low, high, theme.band), lineSeries("Observed", x, rate, theme.accent)],
    });
    const seen = rows.filter((row) => row.observed_s);
    const most = seen.reduce((best, row) => (row.rate > best.rate ? row : best), seen[0]);
    const least = seen.reduce((best, row) => (row.rate < best.rate ? row : best), seen[0]);
    const text = `Between ${formatNumber(perHour(least.rate))} sessions an hour from ${clock(least.start_s)} and ${formatNumber(perHour(most.rate))} from ${clock(most.start_s)}.`;
    return { option, text, columns: ["time", "sessions", "observed_s", "rate", "low", "high", "request_rate"],
      rows: rows.map((row) => [row.time, row.sessions, row.observed_s, row.rate, ...row.rate_interval, row.request_rate]) };
  };
}

/** @param {any} context @param {any} data */
function times(context, data) {
  const thinking = data.think_times;
  const chart = createChart(context, { title: "Longer than", name: "think-times" });
  chart.update(thinking.curves ? timesChart(thinking) : `Nothing was fitted: ${thinking.reason}.`);
  const table = createTable(context, { caption: "Distributions, the best one first", columns: FAMILIES, rowKey: (row) => row.family });
  table.update(thinking.families, "No distribution was fitted.");
  const lengths = createChart(context, { title: "Requests in a session", name: "session-lengths" });
  lengths.update(data.sessions.length_permille.length ? lengthsChart(data.sessions) : "No request has a known visitor.");
  return [chart.root, h("h2", {}, "Distributions, the best one first"), table.root, lengths.root];
}

/** Share of the times that are longer, as observed and as fitted. @param {any} thinking */
function timesChart(thinking) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t, observed, families } = thinking.curves;
    const n = thinking.n;
    const positive = (/** @type {number} */ share) => (share >= 0.5 / n ? share : null);
    const shown = thinking.families.slice(0, MOST_CURVES);
    const colours = [theme.orange, theme.purple, theme.blue];
    const option = baseOption(theme, {
      x: { type: "log", name: "Time between requests", axisLabel: { formatter: formatSpan } },
      y: { type: "log", name: "Share of longer times", max: 1, axisLabel: { formatter: (/** @type {number} */ y) => formatShare(y, y < 0.01 ? 2 : 0) } },
      unit: (y) => formatShare(y, 3), head: formatSpan,
      series: [
        ...shown.map((/** @type {any} */ family, /** @type {number} */ i) => lineSeries(family.family, t, families[family.family].map(positive), colours[i],
          { lineStyle: { width: i ? 1 : 2, color: colours[i], type: i ? "dashed" : "solid" } })),
        lineSeries("Observed", t, observed.map(positive), theme.accent, { showSymbol: true, lineStyle: { width: 0, color: theme.accent } }),
      ],
    });
    const best = shown[0];
    const text = `${formatNumber(n, 0)} times; ${best.call} has a KS distance of ${formatNumber(best.ks, 4)}; chance alone gives up to ${formatNumber(thinking.ks_by_chance, 4)}.`;
    const names = Object.keys(families);
    return { option, text, columns: ["longer_than_s", "observed", ...names],
      rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, observed[i], ...names.map((name) => families[name][i])]) };
  };
}

/** @param {any} sessions */
function lengthsChart(sessions) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    let left = 1000;
    const points = sessions.length_permille.map((/** @type {number[]} */ [length, count]) => {
      const point = [length, left / 1000];
      left -= count;
      return point;
    });
    const option = baseOption(theme, {
      x: { type: "log", name: "Requests", min: 1, axisLabel: { formatter: formatTick } },
      y: { type: "log", name: "Share with at least as many", max: 1, axisLabel: { formatter: (/** @type {number} */ y) => formatShare(y, 1) } },
      unit: (y) => formatShare(y, 1), head: (x) => `${formatNumber(x, 0)} requests`, legend: false,
      series: [{ ...lineSeries("Sessions", points.map((/** @type {number[]} */ p) => p[0]), points.map((/** @type {number[]} */ p) => p[1]), theme.accent), step: "start", showSymbol: points.length < 40 }],
    });
    const text = sessions.mean_length === null
      ? `${formatNumber(sessions.n, 0)} sessions as the log shows them: its ends cut some, so the lengths of whole sessions are unknown.`
      : `${formatNumber(sessions.n, 0)} sessions of ${formatNumber(sessions.mean_length)} requests on average; ${formatShare(sessions.single_share)} have one request.`
      + (sessions.unseen_share > 0.005 ? ` The longest ${formatShare(sessions.unseen_share)} are beyond the log and drawn as an exponential tail.` : "");
    return { option, text, columns: ["requests", "thousandths_of_the_sessions"], rows: sessions.length_permille };
  };
}

/** @param {any} context @param {any} data */
function requests(context, data) {
  const table = createTable(context, { caption: "Requests by name", columns: NAMES });
  table.update(data.requests.map((/** @type {any} */ row) => ({ ...row, label: row.name })));
  return [table.root];
}

/** @param {number | null} rate per second */
function perHour(rate) {
  return rate === null ? null : HOUR * rate;
}

/** @param {number} seconds */
function formatClockOfDay(seconds) {
  const pad = (/** @type {number} */ part) => String(part).padStart(2, "0");
  return `${pad(Math.floor(seconds / HOUR))}:${pad(Math.floor(seconds / 60) % 60)}`;
}

/** @param {number} seconds from Monday 00:00 */
function formatTimeOfWeek(seconds) {
  const day = DAYS[Math.floor(seconds / (24 * HOUR)) % 7];
  const rest = seconds % (24 * HOUR);
  return rest ? `${day} ${formatClockOfDay(rest)}` : day;
}

/** @param {number} seconds */
function formatSpan(seconds) {
  return seconds < 1 ? `${formatTick(seconds * 1000)} ms` : seconds < 60 ? `${formatTick(seconds)} s` : formatClock(seconds);
}
