// The verdict in one sentence, and the checks that are not green.

import { h, setChildren } from "./dom.js";
import { formatNumber, formatTick, isNumber } from "./format.js";
import { term } from "./hints.js";
import { STATUSES, statusChip } from "./table.js";

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

/** @param {any} context @param {any} verdict @returns {Node[]} */
function build(context, verdict) {
  const overall = String(verdict.overall ?? "not enough data");
  const checks = verdict.checks ?? [];
  const loud = checks.filter((/** @type {any} */ check) => check.status === "red" || check.status === "amber");
  const having = (/** @type {string} */ status) => checks.filter((/** @type {any} */ check) => check.status === status);
  const [green, waiting] = [having("green"), having("not enough data")];
  return [
    h("div", { class: "lr-verdict-head" }, statusChip(overall),
      h("p", { class: "lr-verdict-text" }, verdict.sentence ?? "There are no launches yet."), term(context, "verdict", "About the verdict")),
    // A red check under "not enough data" would otherwise contradict the verdict.
    ...(loud.length && !["green", "amber", "red"].includes(overall) ? [h("p", { class: "lr-verdict-early" }, "There is no verdict yet; what is already visible:")] : []),
    ...(loud.length ? [list(inCausalOrder(loud))] : []),
    ...(green.length ? [group(`${formatNumber(green.length, 0)} green`, green)] : []),
    ...(waiting.length ? [group(`${formatNumber(waiting.length, 0)} without enough data`, waiting)] : []),
  ];
}

/** Return the checks worst first, consequences after their root cause. @param {any[]} checks @returns {any[]} */
function inCausalOrder(checks) {
  const rank = (/** @type {any} */ check) => STATUSES[check.status]?.rank ?? 5;
  const follows = (/** @type {any} */ check) => checks.find((other) => other.id === check.follows_from && other !== check);
  const roots = checks.filter((check) => !follows(check)).sort((a, b) => rank(a) - rank(b));
  return roots.flatMap((root) => [root, ...checks.filter((check) => follows(check) === root)
    .map((check) => ({ ...check, after: root.name }))]);
}

function group(/** @type {string} */ title, /** @type {any[]} */ checks) {
  return h("details", { class: "lr-more" }, h("summary", {}, title), list(checks));
}

function list(/** @type {any[]} */ checks) {
  return h("ul", { class: `lr-checks${checks[0].status === "not enough data" ? " lr-wide" : ""}` }, ...checks.map((check) => h("li", { "data-check": check.id, class: check.after ? "lr-after" : null },
    statusChip(check.status), h("div", {}, h("strong", {}, String(check.name ?? check.id)), figures(check), ...words(check)))));
}

/** Return observation, meaning and advice of a check as paragraphs. @param {any} check */
function words(check) {
  if (!check.seen) return [h("p", {}, String(check.explanation ?? ""))];
  return [
    h("p", {}, String(check.seen)),
    check.after ? h("p", {}, `Follows from: ${check.after}.`) : check.meaning && h("p", {}, String(check.meaning)),
    !check.after && check.advice && h("p", { class: "lr-advice" }, String(check.advice)),
  ].filter(Boolean);
}

/** Return value and bound if they are numbers, a range or short words. @param {any} check */
function figures(check) {
  const [value, bound] = [check.value, check.bound].map(figure);
  return value && h("span", { class: "lr-figures" }, ` ${value}${bound ? ` (bound ${bound})` : ""}`);
}

/** @param {unknown} value @returns {string} */
function figure(value) {
  if (isNumber(value)) return formatTick(Number(value.toPrecision(3)));
  if (Array.isArray(value) && value.length === 2) return value.map(figure).join(" to ");
  return typeof value === "string" && value.length < 60 ? value : "";
}
