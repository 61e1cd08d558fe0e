// Charts of the response times, as pure functions of the JSON.

import { baseOption, lineSeries, timeAxis } from "./chart.js";
import { formatClock, formatNumber, formatShare, formatTick, isNumber } from "./format.js";
import { fullName } from "./names.js";
import { labelColor } from "./theme.js";

const ms = (/** @type {number} */ value) => `${formatNumber(value)} ms`;

/** p50, p95 and p99 in each bin of time; the chosen span is shaded. @param {any} time @param {[number, number] | null} span */
export function percentilesOverTime(time, span) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t } = time;
    const shade = { silent: true, itemStyle: { color: theme.band }, data: span ? [[{ xAxis: span[0] }, { xAxis: span[1] }]] : [] };
    const few = { showSymbol: t.length < 3 };
    const option = baseOption(theme, {
      x: timeAxis(t),
      y: { type: "value", name: "ms", min: 0 }, unit: ms, head: formatClock,
      series: [lineSeries("p50", t, time.p50_ms, theme.accent, { ...few, markArea: shade }),
        lineSeries("p95", t, time.p95_ms, theme.orange, few), lineSeries("p99", t, time.p99_ms, theme.red, few)],
    });
    const last = [...time.p95_ms].reverse().find(isNumber);
    return { option, text: `p50, p95 and p99 in steps of ${formatNumber(time.width_s[0], 0)} s; the last p95 is ${ms(last)}.`,
      columns: ["t_s", "rate", "failures_per_s", "p50_ms", "p95_ms", "p99_ms"],
      rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, time.rate[i], time.failures[i], time.p50_ms[i], time.p95_ms[i], time.p99_ms[i]]) };
  };
}

/** Response time against 1/(1-q). @param {any} curve one of charts.response @param {any} all Aggregated */
export function percentilePlot(curve, all) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const one = (/** @type {any} */ of, /** @type {string} */ color) =>
      lineSeries(fullName(of), of.tail, of.tail_ms, color, { step: "end", showSymbol: of.n < 20 });
    const option = baseOption(theme, {
      x: { type: "log", name: "Percentile", min: 1, max: "dataMax", axisLabel: { formatter: percentileOf, showMaxLabel: false } },
      y: { type: "log", name: "ms", axisLabel: { formatter: formatTick } },
      unit: ms, head: percentileOf, series: both(curve, all, theme, one),
    });
    const at = (/** @type {number} */ tail) => curve.tail_ms[curve.tail.findIndex((/** @type {number} */ x) => x >= tail)];
    const text = `${fullName(curve)}: half of the requests took no longer than ${ms(at(2))}, `
      + `${curve.n >= 100 ? `99 % no longer than ${ms(at(100))}, ` : ""}the longest ${ms(curve.tail_ms.at(-1))}.`;
    return { option, text, columns: ["q", "ms"], rows: curve.tail.map((/** @type {number} */ x, /** @type {number} */ i) => [1 - 1 / x, curve.tail_ms[i]]) };
  };
}

/** Share of requests by response time. @param {any} curve @param {any} all */
export function densityChart(curve, all) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const one = (/** @type {any} */ of, /** @type {string} */ color) =>
      lineSeries(fullName(of), of.density_ms, of.density.map((/** @type {number} */ y) => 100 * y), color,
        { areaStyle: { color, opacity: 0.12 }, showSymbol: of.density.length < 3 });
    const option = baseOption(theme, {
      x: { type: "log", name: "Response time (ms)", min: "dataMin", max: "dataMax", axisLabel: { formatter: formatTick, showMinLabel: false, showMaxLabel: false } },
      y: { type: "value", name: "% of requests", min: 0 }, unit: (value) => formatShare(value / 100), head: ms,
      series: both(curve, all, theme, one),
    });
    const top = curve.density.indexOf(Math.max(...curve.density));
    const text = `${fullName(curve)}: most requests took about ${ms(curve.density_ms[top])}.`;
    return { option, text, columns: ["ms", "share"], rows: curve.density_ms.map((/** @type {number} */ x, /** @type {number} */ i) => [x, curve.density[i]]) };
  };
}

/** Return the chosen name in its colour, and all names in grey behind it. */
function both(/** @type {any} */ curve, /** @type {any} */ all, /** @type {import("./theme.js").Theme} */ theme,
              /** @type {(of: any, color: string) => any} */ one) {
  if (curve === all) return [one(all, theme.accent)];
  return [one(all, theme.muted), one(curve, labelColor(theme, fullName(curve)))];
}

/** 100 as p99. @param {number} tail */
function percentileOf(tail) {
  return `p${formatNumber(100 * (1 - 1 / tail), 6).replace(/([.,]\d*?)0+$/, "$1").replace(/[.,]$/, "")}`;
}
