// Charts of the user population, as pure functions of the JSON.

import { bandSeries, baseOption, levelMark, lineSeries, timeAxis } from "./chart.js";
import { formatClock, formatDuration, formatNumber, formatTick, isNumber } from "./format.js";

const plain = (/** @type {number} */ value) => formatTick(Number(value.toPrecision(3)));

/** Users over time against the expected curve and its band. @param {any} series */
export function usersOverTime(series) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t, users, expected, low, high } = series;
    const parts = [];
    if (low && high) parts.push(...bandSeries("Expected, 95 %", t, low, high, theme.band));
    if (expected) parts.push(lineSeries("Expected", t, expected, theme.muted, { lineStyle: { type: "dashed", width: 1.5, color: theme.muted } }));
    parts.push(lineSeries("Users", t, users, theme.accent, { showSymbol: t.length < 3 }));
    const option = baseOption(theme, { x: timeAxis(t), y: { type: "value", name: "Users", min: 0, minInterval: 1 }, unit: plain, head: formatClock, series: parts });
    const last = users.findLast(isNumber);
    const aim = expected?.findLast(isNumber);
    const text = `${formatTick(last)} concurrent users at the end${isNumber(aim) ? `, ${plain(aim)} expected` : ""}.`;
    return { option, text, columns: ["t_s", "users", "expected", "low", "high"],
      rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, users[i], expected?.[i], low?.[i], high?.[i]]) };
  };
}

/** Arrivals and departures per second. @param {any} series */
export function comings(series) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t, arrivals, departures } = series;
    const planned = series.planned_arrivals;
    const parts = [lineSeries("Arrivals", t, arrivals, theme.accent), lineSeries("Departures", t, departures, theme.orange)];
    if (planned) parts.push(lineSeries("Planned arrivals", t, planned, theme.muted, { lineStyle: { type: "dashed", width: 1.5, color: theme.muted } }));
    const option = baseOption(theme, { x: timeAxis(t), y: { type: "value", name: "Users / s", min: 0 }, unit: plain, head: formatClock, series: parts });
    // A population that starts in equilibrium is built up first; planned arrivals begin after that.
    const from = Math.max(0, planned?.findIndex((/** @type {number} */ one) => one > 0) ?? 0);
    const mean = (/** @type {any[]} */ values) => { const known = values.slice(from).filter(isNumber); return known.reduce((a, b) => a + b, 0) / Math.max(1, known.length); };
    return { option, text: `On average ${plain(mean(arrivals))} arrivals${planned ? ` (${plain(mean(planned))} planned)` : ""} and ${plain(mean(departures))} departures per second.`,
      columns: ["t_s", "arrivals_per_s", "departures_per_s", "planned_arrivals_per_s"],
      rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, arrivals[i], departures[i], planned?.[i]]) };
  };
}

/** Launches per second against the planned profile. @param {any} series */
export function rateOverTime(series) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t, rate, planned_rate: planned } = series;
    const parts = [lineSeries("Launches", t, rate, theme.accent, { showSymbol: t.length < 3 })];
    if (planned) parts.unshift(lineSeries("Planned", t, planned, theme.muted, { lineStyle: { type: "dashed", width: 1.5, color: theme.muted } }));
    const option = baseOption(theme, { x: timeAxis(t), y: { type: "value", name: "Launches / s", min: 0 }, unit: plain, head: formatClock, series: parts });
    const made = rate.map(isNumber);
    const sum = (/** @type {any[]} */ values) => values.filter((value, i) => made[i] && isNumber(value)).reduce((a, b) => a + b, 0);
    const text = planned ? `${formatNumber((100 * sum(rate)) / Math.max(1e-9, sum(planned)), 1)} % of the planned launches were made.`
      : `${plain(sum(rate) / Math.max(1, made.filter(Boolean).length))} launches per second on average.`;
    return { option, text, columns: ["t_s", "rate", "planned_rate"],
      rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, rate[i], planned?.[i]]) };
  };
}

/** Histogram of the lengths of ended sessions. @param {any} sessions */
export function sessionLengths(sessions) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { edges_s: edges, counts } = sessions;
    const bars = counts.map((/** @type {number} */ n, /** @type {number} */ i) => [(edges[i] + edges[i + 1]) / 2, n]);
    const option = baseOption(theme, { legend: false,
      x: { type: "value", name: "Session length (s)", min: edges[0], max: edges.at(-1), axisLabel: { formatter: formatTick } },
      y: { type: "value", name: "Sessions", minInterval: 1 }, unit: (n) => formatNumber(n, 0), head: (x) => `${plain(x)} s`,
      series: [{ type: "bar", name: "Sessions", data: bars, color: theme.bar, barWidth: "92%", emphasis: { disabled: true } }] });
    const text = `${formatNumber(sessions.n, 0)} sessions have ended; mean ${plain(sessions.mean_s)} s, CoV ${formatNumber(sessions.cov, 2)}.`;
    return { option, text, columns: ["from_s", "to_s", "sessions"], rows: counts.map((/** @type {number} */ n, /** @type {number} */ i) => [edges[i], edges[i + 1], n]) };
  };
}

/** The planned profile for the hours to come. @param {any} profile */
export function profileAhead(profile) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t, rate, now_s: now } = profile;
    const unit = profile.unit ?? "per second";
    const mark = isNumber(now) && now > t[0] ? { markLine: { ...levelMark(theme, 0, "now"), data: [{ xAxis: now }], label: { formatter: "now", color: theme.muted, fontSize: 11 } } } : {};
    const option = baseOption(theme, { legend: false, x: timeAxis(t), y: { type: "value", name: unit, min: 0 }, unit: plain, head: formatClock,
      series: [lineSeries("Planned", t, rate, theme.blue, mark)] });
    const top = Math.max(...rate);
    const span = formatDuration(t.at(-1) - t[0]);
    const [low, high] = [Math.min(...rate), top].map(plain);
    const text = low === high ? `${high} ${unit} for the next ${span}.`
      : `The next ${span}: between ${low} and ${high} ${unit}; the highest at ${formatClock(t[rate.indexOf(top)])}.`;
    return { option, text, columns: ["t_s", "rate"], rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, rate[i]]) };
  };
}
