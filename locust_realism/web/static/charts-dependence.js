// Chart of the dependence between intervals, as a pure function of the JSON.

import { bandSeries, baseOption, levelMark } from "./chart.js";
import { formatNumber, formatTick } from "./format.js";

const three = (/** @type {number} */ value) => formatNumber(value, 3);

/** Correlation of intervals 1, 2, 3 … places apart. @param {number[]} values pattern.autocorrelation @param {number} n intervals @param {string} judged the verdict's observation */
export function autocorrelationChart(values, n, judged) {
  return (/** @type {import("./theme.js").Theme} */ theme) => {
    const lags = values.map((_, i) => i + 1);
    const chance = 1.96 / Math.sqrt(Math.max(n, 1));
    const option = baseOption(theme, {
      x: { type: "value", name: "Intervals apart", min: 0, max: lags.length + 1, minInterval: 1, axisLabel: { formatter: formatTick, showMaxLabel: false } },
      y: { type: "value", name: "Correlation", axisLabel: { formatter: formatTick } },
      unit: three, head: (x) => `${formatNumber(x, 0)} apart`,
      series: [...bandSeries("Independent users (95 %)", [0, lags.length + 1], [-chance, -chance], [chance, chance], theme.band),
        { type: "bar", name: "Observed", data: lags.map((lag, i) => [lag, values[i]]), color: theme.bar, barMaxWidth: 14, emphasis: { disabled: true }, markLine: levelMark(theme, 0, "") }],
    });
    const text = `Correlation of ${formatNumber(n, 0)} intervals at ${lags.length} lags. ${judged}`.trim();
    return { option, text, columns: ["lag", "correlation", "band_low", "band_high"], rows: lags.map((lag, i) => [lag, values[i], -chance, chance]) };
  };
}
