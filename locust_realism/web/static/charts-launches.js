// Charts of the launch pattern, as pure functions of the JSON.

import { bandSeries, baseOption, levelMark, lineSeries, timeAxis } from "./chart.js";
import { formatClock, formatDuration, formatNumber, formatTick } from "./format.js";

const three = (/** @type {number} */ value) => formatNumber(value, 3);

/** CoV in each step of time, with the band of independent users. @param {any} time charts.cov_over_time */
export function covOverTime(time) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const { t_s: t, cov, n } = time;
    const half = n.map((/** @type {number} */ one) => 2 / Math.sqrt(Math.max(1, one)));
    const known = cov.filter((/** @type {any} */ one) => one !== null);
    const low = half.map((/** @type {number} */ one, /** @type {number} */ i) => (cov[i] === null ? null : Math.max(0, 1 - one)));
    const high = half.map((/** @type {number} */ one, /** @type {number} */ i) => (cov[i] === null ? null : 1 + one));
    const option = baseOption(theme, {
      x: timeAxis(t),
      y: { type: "value", name: "CoV", min: 0 }, unit: three, head: formatClock,
      series: [...bandSeries("Independent users (95 %)", t, low, high, theme.band),
        lineSeries("CoV", t, cov, theme.accent, { showSymbol: known.length < 40, markLine: levelMark(theme, 1, "1") })],
    });
    const [least, most] = [Math.min(...known), Math.max(...known)].map(three);
    const text = `CoV in steps of ${formatDuration(time.width_s[0])}: ${least === most ? least : `between ${least} and ${most}`}.`;
    return { option, text, columns: ["t_s", "n", "cov", "band_low", "band_high"],
      rows: t.map((/** @type {number} */ x, /** @type {number} */ i) => [x, n[i], cov[i], low[i], high[i]]) };
  };
}

/** Histogram of inter-launch times against the exponential curve. @param {any} curve one of charts.interlaunch */
export function gapHistogram(curve) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const middles = curve.counts.map((/** @type {number} */ _, /** @type {number} */ i) => (curve.edges_ms[i] + curve.edges_ms[i + 1]) / 2);
    const bars = middles.map((/** @type {number} */ x, /** @type {number} */ i) => [x, curve.counts[i] || null]);
    const option = baseOption(theme, {
      x: { type: "value", name: "Inter-launch time (ms)", min: 0, max: curve.edges_ms.at(-1), axisLabel: { formatter: formatTick, showMaxLabel: false } },
      y: { type: "log", name: "Number", min: 0.5, startValue: 0.5, axisLabel: { formatter: formatTick } },
      unit: (value) => formatNumber(value, value < 10 ? 1 : 0), head: (x) => `${formatNumber(x)} ms`,
      series: [{ type: "bar", name: "Observed", data: bars, color: theme.bar, barWidth: "92%", barMaxWidth: 18, emphasis: { disabled: true } },
        lineSeries("Exponential", middles, curve.expected.map((/** @type {number} */ y) => (y >= 0.5 ? y : null)), theme.orange)],
    });
    const text = `${formatNumber(curve.n, 0)} intervals with a mean of ${formatNumber(curve.mean_ms)} ms; `
      + `${formatNumber(curve.beyond, 0)} ${curve.beyond === 1 ? "is" : "are"} longer than the chart, ${formatNumber(curve.beyond_expected, 1)} expected.`;
    return { option, text, columns: ["from_ms", "to_ms", "count", "exponential"],
      rows: curve.counts.map((/** @type {number} */ n, /** @type {number} */ i) => [curve.edges_ms[i], curve.edges_ms[i + 1], n, curve.expected[i]]) };
  };
}

/** CoV of the first 1, 2, 3 … users together. @param {any[]} groups @param {string} judged the verdict's observation */
export function covByUsers(groups, judged) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const known = groups.filter((group) => group.cov !== null && group.users > 0);
    const users = known.map((group) => group.users);
    const option = baseOption(theme, {
      x: { type: "log", name: "Number of users", min: 1, max: "dataMax", axisLabel: { formatter: (/** @type {number} */ x) => formatNumber(x, 0) } },
      y: { type: "value", name: "CoV", min: 0 }, unit: three, head: (x) => `${formatNumber(x, 0)} users`,
      series: [...bandSeries("1 ± 0.05", users, users.map(() => 0.95), users.map(() => 1.05), theme.band),
        lineSeries("CoV", users, known.map((group) => group.cov), theme.accent, { showSymbol: known.length < 60, markLine: levelMark(theme, 1, "1") })],
    });
    const last = known.at(-1);
    const text = last ? `${formatNumber(last.users, 0)} users together have a CoV of ${three(last.cov)}. ${judged}`.trim() : "";
    return { option, text, columns: ["users", "n", "rate", "mean_ms", "sdev_ms", "cov"],
      rows: groups.map((group) => [group.users, group.n, group.rate, group.mean_ms, group.sdev_ms, group.cov]) };
  };
}

/** Index of dispersion against the length of the window. @param {any[]} dispersion @param {string} judged the verdict's observation */
export function dispersionChart(dispersion, judged) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const rows = dispersion.filter((row) => row.idc > 0);
    const windows = rows.map((row) => row.window_s);
    const column = (/** @type {string} */ key) => rows.map((row) => row[key]);
    const modelled = rows.some((row) => row.model && Math.abs(row.model - 1) > 0.02);
    const option = baseOption(theme, {
      x: { type: "log", name: "Length of the window", min: "dataMin", max: "dataMax", axisLabel: { formatter: span } },
      y: { type: "log", name: "Variance / mean", axisLabel: { formatter: formatTick } },
      unit: three, head: span,
      series: [...bandSeries("Poisson process (95 %)", windows, column("poisson_low"), column("poisson_high"), theme.band),
        ...(modelled ? [lineSeries("Configured model", windows, column("model"), theme.orange, { lineStyle: { width: 1.5, color: theme.orange } })] : []),
        lineSeries("Observed", windows, column("idc"), theme.accent, { showSymbol: true })],
    });
    const text = `Variance / mean at ${rows.length} lengths of window, from ${span(windows[0])} to ${span(windows.at(-1))}. ${judged}`.trim();
    const keys = ["window_s", "windows", "mean", "idc", "poisson_low", "poisson_high", "model", "model_low", "model_high"];
    return { option, text, columns: keys, rows: rows.map((row) => keys.map((key) => row[key])) };
  };
}

function span(/** @type {number} */ seconds) {
  return seconds < 1 ? `${formatNumber(seconds * 1000, 0)} ms` : `${formatNumber(seconds, seconds < 10 && seconds % 1 ? 1 : 0)} s`;
}
