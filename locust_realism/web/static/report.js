// The offline report: the same tabs below each other, from one JSON document.

import { h } from "./dom.js";
import { formatDuration, formatNumber } from "./format.js";
import { drawOffline, factList, termList } from "./offline.js";
import { TABS } from "./tabs.js";
import { TERMS } from "./terms.js";
import { createVerdict } from "./verdict.js";

const ORDER = ["Percentiles", "Launches", "Population", "Capacity", "Generator"];

/**
 * Draw a report into an element; needs ECharts as `window.echarts` for its charts, and shows their texts without it.
 * `data` holds `summary` and, where known, `population`, `generator`, `status`, `title`, `facts` (pairs of words).
 * @param {HTMLElement} root @param {any} data
 */
export function renderReport(root, data) {
  drawOffline(root, (context) => {
    const verdict = createVerdict(context);
    verdict.update(data.summary?.verdict);
    const parts = ORDER.map((title) => TABS.find((tab) => tab.title === title))
      .filter((tab) => tab && !(tab.title === "Generator" && !data.generator?.workers?.length));
    return [h("header", {}, h("h1", {}, String(data.title ?? "Load test report")), facts(data)), verdict.root,
      ...parts.map((tab) => section(/** @type {any} */ (tab), context, data)), termList(Object.keys(TERMS))];
  });
}

/** @param {any} tab @param {any} context @param {any} data */
function section(tab, context, data) {
  const view = tab.create(context);
  const node = h("section", { "aria-label": tab.title, id: tab.title.toLowerCase() }, h("h2", { class: "lr-part" }, tab.title), view.root);
  try {
    view.update({ population: {}, generator: {}, status: null, ...data });
  } catch (error) {
    console.warn("locust_realism", error);
    node.replaceChildren(h("h2", { class: "lr-part" }, tab.title), h("p", { class: "lr-notice" }, "This part could not be drawn from the data of this report."));
  }
  return node;
}

/** @param {any} data */
function facts(data) {
  const window = data.summary?.window ?? {};
  const pairs = [...(data.facts ?? [])];
  if (window.sentence) pairs.push(["Part analysed", window.sentence]);
  if (data.status?.rows) pairs.push(["Requests recorded", formatNumber(data.status.rows, 0)]);
  if (data.status?.lost) pairs.push(["Lost", formatNumber(data.status.lost, 0)]);
  if (window.duration_s) pairs.push(["Length", formatDuration(window.duration_s)]);
  return factList(pairs);
}
