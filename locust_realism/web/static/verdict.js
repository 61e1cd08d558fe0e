// The verdict in one sentence, its causes with evidence and remedy, and the checks.

import { h, setChildren, setHidden } from "./dom.js";
import { formatNumber, formatTick, isNumber } from "./format.js";
import { term } from "./hints.js";
import { statusChip } from "./table.js";

/** @param {any} context */
export function createVerdict(context) {
  const root = h("section", { class: "lr-verdict", "aria-label": "Verdict" });

  /** @param {any} verdict of the summary */
  function update(verdict) {
    setChildren(root, JSON.stringify(verdict ?? null), () => build(context, verdict ?? {}));
    root.dataset.status = verdict?.overall ?? "not enough data";
  }
  return { root, update };
}

/** The diagnosis in short, for other tabs: the verdict's sentence, evidence and remedy of its first cause. @param {any} context */
export function createDiagnosis(context) {
  const root = h("section", { class: "lr-diagnosis", "aria-label": "Diagnosis", hidden: true });

  /** @param {any} verdict of the summary */
  function update(verdict) {
    setHidden(root, !verdict?.sentence);
    root.dataset.status = verdict?.overall ?? "not enough data";
    setChildren(root, JSON.stringify(verdict ?? null), () => (verdict?.sentence ? [head(context, verdict, "lr-diagnosis-text"), ...causeWords(verdict.causes?.[0]), ...missing(verdict)] : []));
  }
  return { root, update };
}

/** @param {any} context @param {any} verdict @returns {Node[]} */
function build(context, verdict) {
  const checks = verdict.checks ?? [];
  const loud = checks.filter((/** @type {any} */ check) => check.status === "red" || check.status === "amber");
  const having = (/** @type {string} */ status) => checks.filter((/** @type {any} */ check) => check.status === status);
  const [green, waiting] = [having("green"), having("not enough data")];
  return [
    head(context, verdict, "lr-verdict-text"),
    // A red check under "not enough data" would otherwise contradict the verdict.
    ...(loud.length && !["green", "amber", "red"].includes(verdict.overall) ? [h("p", { class: "lr-verdict-early" }, "There is no verdict yet; what is already visible:")] : []),
    ...(loud.length ? [list(loud, verdict.causes ?? [])] : []),
    ...(loud.length ? missing(verdict) : []),
    ...(green.length ? [group(`${formatNumber(green.length, 0)} green`, green)] : []),
    ...(waiting.length ? [group(`${formatNumber(waiting.length, 0)} without enough data`, waiting)] : []),
  ];
}

/** @param {any} context @param {any} verdict @param {string} name class of the sentence */
function head(context, verdict, name) {
  return h("div", { class: "lr-verdict-head" }, statusChip(String(verdict.overall ?? "not enough data")),
    h("p", { class: name }, verdict.sentence ?? "There are no launches yet."), term(context, "verdict", "About the verdict"));
}

/** Name the figures that this system does not measure. @param {any} verdict @returns {Node[]} */
function missing(verdict) {
  return verdict.missing?.length ? [h("p", { class: "lr-fine" }, `Not measured: ${verdict.missing.join(", ")}.`)] : [];
}

function group(/** @type {string} */ title, /** @type {any[]} */ checks) {
  return h("details", { class: "lr-more" }, h("summary", {}, title), list(checks, []));
}

/** The checks in the order of the summary, causes first; the item of a cause's own check names the cause. @param {any[]} checks @param {any[]} causes */
function list(checks, causes) {
  return h("ul", { class: `lr-checks${checks[0].status === "not enough data" ? " lr-wide" : ""}` }, ...checks.map((check) => {
    const cause = causes.find((one) => one.check === check.id);
    const root = causes.find((one) => one.check === check.follows_from);
    const title = cause ? `${capital(cause.name)}${cause.distortion ? ` (${cause.distortion})` : ""}` : String(check.name ?? check.id);
    const words = cause ? [...causeWords(cause), h("p", { class: "lr-fine" }, `Seen in ${check.name}`, figures(check), ".")]
      : [h("p", {}, String(check.seen ?? "")), root && h("p", {}, `Follows from: ${root.name}.`)];
    return h("li", { "data-check": check.id, class: root ? "lr-after" : null },
      statusChip(cause?.status ?? check.status), h("div", {}, h("strong", {}, title), cause ? null : figures(check), ...words));
  }));
}

/** Evidence and remedy of a cause as paragraphs. @param {any} cause @returns {Node[]} */
function causeWords(cause) {
  return cause ? [h("p", {}, String(cause.evidence)), h("p", { class: "lr-advice" }, String(cause.remedy))] : [];
}

function capital(/** @type {string} */ text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/** Return value and bound if they are numbers, a range or short words. @param {any} check */
function figures(check) {
  const [value, bound] = [check.value, check.bound].map(figure);
  return value ? h("span", { class: "lr-figures" }, ` ${value}${bound ? ` (bound ${bound})` : ""}`) : null;
}

/** @param {unknown} value @returns {string} */
function figure(value) {
  if (isNumber(value)) return formatTick(Number(value.toPrecision(3)));
  if (Array.isArray(value) && value.length === 2) return value.map(figure).join(" to ");
  return typeof value === "string" && value.length < 60 ? value : "";
}
