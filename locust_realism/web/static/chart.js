// A chart with its heading, its description for screen readers, and its files.

import { h, newId, saveFile, setHidden, setText } from "./dom.js";
import { formatClock, toCsv } from "./format.js";
import { term } from "./hints.js";

/**
 * @typedef {object} Drawing
 * @property {any} option of ECharts
 * @property {string} text the chart in one sentence
 * @property {string[]} columns
 * @property {unknown[][]} rows the data of the CSV
 */

/**
 * A chart whose `update` takes a function of the theme, or a sentence that stands in for a chart without data.
 * @param {any} context
 * @param {{title: string, term?: string, name: string, height?: number, extra?: Node, legend?: string[]}} options `term`
 *   explains the title, `legend` are the terms of the drawn curves
 */
export function createChart(context, { title, term: key, name, height = 300, extra, legend = [] }) {
  const id = newId();
  const canvas = h("div", { class: "lr-canvas", role: "img", "data-chart": name });
  canvas.style.height = `${height}px`;
  const empty = h("p", { class: "lr-empty" });
  const caption = h("figcaption", { class: "lr-caption" });
  const explained = h("p", { class: "lr-legend" }, ...legend.map((one) => term(context, one)));
  const actions = h("span", { class: "lr-actions" },
    h("button", { type: "button", class: "lr-link", onclick: savePng, "aria-label": `Save chart “${title}” as PNG` }, "PNG"),
    h("button", { type: "button", class: "lr-link", onclick: saveCsv, "aria-label": `Save data of “${title}” as CSV` }, "CSV"));
  const root = h("figure", { class: "lr-chart", "aria-labelledby": id },
    h("div", { class: "lr-chart-head" }, h("h3", { id }, key ? term(context, key, title) : title), actions),
    extra ?? null, canvas, empty, caption, explained);

  /** @type {any} */
  let chart = null;
  /** @type {((theme: import("./theme.js").Theme) => Drawing) | null} */
  let draw = null;
  /** @type {Drawing | null} */
  let drawn = null;
  const listeners = /** @type {((chart: any) => void)[]} */ ([]);

  /** @param {((theme: import("./theme.js").Theme) => Drawing) | string} next */
  function update(next) {
    draw = typeof next === "string" ? null : next;
    setText(empty, typeof next === "string" ? next : "");
    setHidden(empty, Boolean(draw));
    for (const part of [canvas, caption, actions]) setHidden(part, !draw);
    setHidden(explained, !draw || !legend.length);
    if (draw) paint();
  }

  async function paint() {
    if (!draw) return;
    drawn = draw(context.theme());
    setText(caption, drawn.text);
    canvas.setAttribute("aria-label", `${title}. ${drawn.text}`);
    const echarts = await context.echarts();
    if (!draw || !drawn) return;
    if (!echarts) {
      setText(caption, `The chart could not be drawn; the CSV link saves its data. ${drawn.text}`);
      setHidden(canvas, true);
      return;
    }
    if (!canvas.offsetWidth) return;
    if (!chart) {
      chart = echarts.init(canvas, null, { renderer: "canvas" });
      listeners.forEach((listener) => listener(chart));
    }
    chart.setOption({ animation: false, backgroundColor: "transparent", ...drawn.option },
      { replaceMerge: ["series", "xAxis", "yAxis", "legend"] });
  }

  function savePng() {
    if (!chart) return;
    const url = chart.getDataURL({ type: "png", pixelRatio: 2, backgroundColor: context.theme().paper });
    saveFile(`${name}.png`, url);
  }

  function saveCsv() {
    if (!drawn) return;
    saveFile(`${name}.csv`, new Blob([toCsv(drawn.columns, drawn.rows)], { type: "text/csv" }));
  }

  let width = 0;
  new ResizeObserver(() => {
    if (!canvas.offsetWidth || canvas.offsetWidth === width) return;
    width = canvas.offsetWidth;
    if (chart) chart.resize();
    else paint();
  }).observe(canvas);
  context.onTheme(paint);

  return { root, update, onChart: (/** @type {(chart: any) => void} */ listener) => { listeners.push(listener); } };
}

/**
 * Build the shared parts of an ECharts option.
 * @param {import("./theme.js").Theme} theme
 * @param {{x: any, y: any | any[], series: any[], legend?: boolean, unit?: (value: number) => string,
 *   head?: (value: number) => string}} parts
 */
export function baseOption(theme, { x, y, series, legend = true, unit, head }) {
  const axis = (/** @type {any} */ own) => ({
    nameTextStyle: { color: theme.muted, fontSize: 12 }, axisLine: { lineStyle: { color: theme.line } },
    axisTick: { lineStyle: { color: theme.line } }, splitLine: { lineStyle: { color: theme.line } },
    minorSplitLine: { show: false }, ...own,
    axisLabel: { color: theme.muted, fontSize: 12, hideOverlap: true, ...own.axisLabel },
  });
  const vertical = Array.isArray(y) ? y : [y];
  return {
    textStyle: { color: theme.text, fontFamily: "inherit" },
    grid: { left: 8, right: 20, top: legend ? 44 : 28, bottom: 28, containLabel: true },
    legend: { show: legend, type: "scroll", top: 0, left: 0, icon: "roundRect", itemWidth: 14, itemHeight: 4,
      textStyle: { color: theme.text, fontSize: 12 }, pageTextStyle: { color: theme.muted },
      data: series.filter((one) => one.name && !one.silentInLegend)
        .map((one) => (one.areaStyle && one.stack ? { name: one.name, itemStyle: { color: theme.bar } } : one.name)) },
    tooltip: { trigger: "axis", confine: true, backgroundColor: theme.paper, borderColor: theme.line,
      textStyle: { color: theme.text, fontSize: 12 }, axisPointer: { type: "line", lineStyle: { color: theme.muted } },
      valueFormatter: (/** @type {any} */ value) => (Array.isArray(value) ? value[1] : value) === null ? "–"
        : (unit ?? String)(Array.isArray(value) ? value[1] : value) },
    xAxis: axis({ nameLocation: "middle", nameGap: 28, axisPointer: head && { label: { formatter: (/** @type {any} */ point) => head(Number(point.value)) } }, ...x, splitLine: { show: false } }),
    yAxis: vertical.map((one) => axis({ nameLocation: "end", nameGap: 12, nameTextStyle: { align: "left", color: theme.muted, fontSize: 12 }, ...one })),
    series,
  };
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];

/** Build the axis of seconds since the start, with ticks at round minutes. @param {number[]} times */
export function timeAxis(times) {
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? 1];
  const min = first < 0.2 * last ? Math.min(0, first) : first;
  const interval = STEPS.find((step) => (last - min) / step <= 8) ?? 86_400;
  return { type: "value", name: "Time since the start", min: min > 0 ? Math.floor(min / interval) * interval : min, max: Math.max(last, min + 1), interval,
    axisLabel: { formatter: formatClock, showMaxLabel: last % interval === 0 } };
}

/** Build a line of [x, y] points. @param {string} name @param {unknown[]} xs @param {unknown[]} ys @param {string} color @param {any} [own] */
export function lineSeries(name, xs, ys, color, own = {}) {
  return {
    type: "line", name, data: xs.map((x, i) => [x, ys[i] ?? null]), showSymbol: false, symbolSize: 6, color,
    lineStyle: { width: 2, color }, emphasis: { disabled: true }, ...own,
  };
}

/** Build a band between two curves: two stacked, invisible lines. @param {string} name @param {unknown[]} xs @param {unknown[]} low @param {unknown[]} high @param {string} color */
export function bandSeries(name, xs, low, high, color) {
  const plain = { type: "line", showSymbol: false, lineStyle: { opacity: 0 }, emphasis: { disabled: true },
    stack: name, stackStrategy: "all", silent: true, tooltip: { show: false }, z: 1 };
  const width = xs.map((_, i) => [xs[i], low[i] === null || high[i] === null ? null : Number(high[i]) - Number(low[i])]);
  return [
    { ...plain, name: `${name} `, silentInLegend: true, data: xs.map((x, i) => [x, low[i]]), color: "transparent" },
    { ...plain, name, data: width, areaStyle: { color, opacity: 1 }, color },
  ];
}

/** Build a horizontal reference line. @param {import("./theme.js").Theme} theme @param {number} at @param {string} text */
export function levelMark(theme, at, text) {
  return { silent: true, symbol: "none", lineStyle: { color: theme.muted, type: "dashed", width: 1 },
    label: { formatter: text, color: theme.muted, position: "insideEndTop", fontSize: 11 }, data: [{ yAxis: at }] };
}
