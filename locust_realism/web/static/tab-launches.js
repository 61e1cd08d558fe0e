// Tab 1: launch pattern against that of independent users.

import { createChart } from "./chart.js";
import { autocorrelationChart } from "./charts-dependence.js";
import { covByUsers, covOverTime, dispersionChart, gapHistogram } from "./charts-launches.js";
import { h } from "./dom.js";
import { term } from "./hints.js";
import { createNamePicker, fullName } from "./names.js";
import { createTable } from "./table.js";
import { createVerdict } from "./verdict.js";

/** @type {import("./table.js").Column[]} */
const COLUMNS = [
  { key: "method", title: "Type", kind: "text" },
  { key: "label", title: "Name", kind: "name" },
  { key: "n", title: "Intervals", term: "interlaunch", digits: 0 },
  { key: "rate", title: "Rate", unit: "/s", term: "rate" },
  { key: "mean_ms", title: "Mean", unit: "ms" },
  { key: "sdev_ms", title: "Sdev", unit: "ms", term: "sdev" },
  { key: "cov", title: "CoV", term: "cov", digits: 3 },
  { key: "p50_ms", title: "p50", unit: "ms", term: "percentile" },
  { key: "p90_ms", title: "p90", unit: "ms" },
  { key: "p95_ms", title: "p95", unit: "ms" },
  { key: "p99_ms", title: "p99", unit: "ms" },
  { key: "min_ms", title: "Min", unit: "ms" },
  { key: "max_ms", title: "Max", unit: "ms" },
];
/** @type {import("./table.js").Column} */
const VERDICT_COLUMN = { key: "verdict", title: "Verdict", term: "verdict", kind: "status", format: () => "" };

/** @param {any} context */
export function createLaunches(context) {
  /** @type {any} */
  let last = null;
  const verdict = createVerdict(context);
  const table = createTable(context, {
    caption: "Times between launches, by name", total: (row) => row.label === "Aggregated" && !row.method,
    columns: [...COLUMNS, VERDICT_COLUMN],
  });
  const picker = createNamePicker(() => drawHistogram());
  const overTime = createChart(context, { title: "CoV over time", term: "cov", name: "cov-over-time", legend: ["band"] });
  const histogram = createChart(context, { title: "Inter-launch times", term: "exponential", name: "inter-launch", extra: picker.root, legend: ["interlaunch"] });
  const groups = createChart(context, { title: "CoV by number of users", term: "groups", name: "cov-by-users" });
  const dispersion = createChart(context, { title: "Index of dispersion", term: "dispersion", name: "dispersion", legend: ["poisson", "band"] });
  const dependence = createChart(context, { title: "Autocorrelation of intervals", term: "autocorrelation", name: "autocorrelation", legend: ["band"] });
  const root = h("div", { class: "lr-tab" }, context.live ? verdict.root : null,
    h("h2", {}, "Times between ", term(context, "launch", "launches")), table.root,
    h("div", { class: "lr-grid" }, overTime.root, histogram.root, groups.root, dispersion.root, dependence.root));

  function drawHistogram() {
    const curves = last?.charts?.interlaunch ?? [];
    picker.update(curves);
    const curve = picker.current(curves);
    histogram.update(curve?.counts.length ? gapHistogram(curve) : "The histogram appears with the second launch.");
  }

  /** @param {{summary: any}} data */
  function update({ summary }) {
    last = summary;
    verdict.update(summary.verdict);
    table.update(withVerdicts(summary), "A row for each name appears with its second launch.");
    const time = summary.charts?.cov_over_time;
    overTime.update(time?.cov.some((/** @type {any} */ one) => one !== null) ? covOverTime(time)
      : "The curve begins with about 30 launches and has a point for every hundred later.");
    drawHistogram();
    const sized = (summary.groups ?? []).filter((/** @type {any} */ row) => row.cov !== null);
    groups.update(sized.length > 1 ? covByUsers(summary.groups, observed(summary, 7)) : "The curve appears with the launches of a second user.");
    const correlations = summary.pattern?.autocorrelation ?? [];
    const intervals = summary.launches?.at(-1)?.n ?? 0;
    dependence.update(correlations.length ? autocorrelationChart(correlations, intervals, observed(summary, 9)) : "The chart appears with about 80 intervals.");
    const windows = (summary.dispersion ?? []).filter((/** @type {any} */ row) => row.idc > 0);
    dispersion.update(windows.length > 1 ? dispersionChart(windows, observed(summary, 6)) : "The curve begins after the first second of launches: each point needs 20 windows of its length.");
  }

  return { root, update };
}

/** Return the observation of a check: charts repeat the verdict and judge nothing. @param {any} summary @param {number} id @returns {string} */
function observed(summary, id) {
  return summary.verdict?.checks?.find((/** @type {any} */ check) => check.id === id)?.seen ?? "";
}

/** Add the overall verdict to the aggregated row, their own verdicts to the others. @param {any} summary */
function withVerdicts(summary) {
  const own = new Map((summary.names ?? []).map((/** @type {any} */ row) => [fullName(row), row.status]));
  return (summary.launches ?? []).map((/** @type {any} */ row) => {
    const all = row.label === "Aggregated" && !row.method;
    const status = all ? summary.verdict?.overall ?? "not enough data" : own.get(fullName(row)) ?? "not enough data";
    return { ...row, status };
  });
}
