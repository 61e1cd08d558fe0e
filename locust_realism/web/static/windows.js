// Picker of the shown part of the run: whole run, since Reset, last minute, or a dragged span.

import { h, newId, setText } from "./dom.js";
import { formatClock, formatDuration } from "./format.js";

const CHOICES = [["run", "Whole run"], ["reset", "Since reset"], ["minute", "Last minute"]];

/** @param {any} context with `window` and `setWindow(text)` */
export function createWindowPicker(context) {
  const from = numberField("From");
  const to = numberField("To");
  const buttons = CHOICES.map(([key, title]) => h("button", { type: "button", class: "lr-choice", "aria-pressed": "false",
    "data-window": key, onclick: () => choose(key) }, title));
  const note = h("span", { class: "lr-fine" });
  const form = h("form", { class: "lr-span", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    if (from.input.value && to.input.value) chooseSpan(Number(from.input.value), Number(to.input.value));
  } }, from.root, to.root, h("button", { type: "submit", class: "lr-choice" }, "Show span"));
  const root = h("div", { class: "lr-windows", role: "group", "aria-label": "Part of the run" },
    h("div", { class: "lr-choices" }, ...buttons), form, note);

  function choose(/** @type {string} */ text) {
    context.setWindow(text);
    mark();
  }

  function chooseSpan(/** @type {number} */ a, /** @type {number} */ b) {
    const [low, high] = [Math.max(0, Math.min(a, b)), Math.max(a, b)];
    if (!(high - low >= 0.5)) return;
    from.input.value = low.toFixed(0);
    to.input.value = high.toFixed(0);
    choose(`${low.toFixed(1)}..${high.toFixed(1)}`);
  }

  function mark() {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.window === context.window));
    form.classList.toggle("lr-on", context.window.includes(".."));
  }

  /** Shade and choose a span by dragging on the chart of times. @param {any} chart of ECharts */
  function attach(chart) {
    const surface = chart.getZr();
    /** @type {number | null} */
    let start = null;
    const at = (/** @type {any} */ event) => chart.convertFromPixel({ gridIndex: 0 }, [event.offsetX, event.offsetY])[0];
    surface.on("mousedown", (/** @type {any} */ event) => {
      if (chart.containPixel({ gridIndex: 0 }, [event.offsetX, event.offsetY])) start = at(event);
    });
    surface.on("mousemove", (/** @type {any} */ event) => {
      if (start === null) return;
      chart.setOption({ series: [{ id: chart.getOption().series[0].id, markArea: { data: [[{ xAxis: start }, { xAxis: at(event) }]] } }] });
    });
    surface.on("mouseup", (/** @type {any} */ event) => {
      if (start !== null) chooseSpan(start, at(event));
      start = null;
    });
    surface.on("globalout", () => { start = null; });
  }

  /** @returns {[number, number] | null} */
  function span() {
    const parts = String(context.window).split("..").map(Number);
    return parts.length === 2 ? [parts[0], parts[1]] : null;
  }

  /** @param {any} summary */
  function update(summary) {
    mark();
    const window = summary.window ?? {};
    const chosen = span();
    const length = window.duration_s ?? window.length_s;
    const words = chosen ? `From ${formatClock(chosen[0])} to ${formatClock(chosen[1])} of the run.` : length ? `${formatDuration(length)} of the run.` : "";
    setText(note, `${words} Drag on the chart of response times to choose a span.`.trim());
  }

  mark();
  return { root, update, attach, span };
}

function numberField(/** @type {string} */ title) {
  const id = newId();
  const input = /** @type {HTMLInputElement} */ (h("input", { id, type: "number", min: "0", step: "any", class: "lr-input", inputmode: "decimal" }));
  return { input, root: h("span", { class: "lr-field" }, h("label", { for: id }, title), input, h("span", { class: "lr-unit" }, "s")) };
}
