// The verdict in one sentence, and the checks that are not green.

import { h, setChildren } from "./dom.js";
import { formatNumber, formatTick, isNumber } from "./format.js";
import { term } from "./hints.js";
import { STATUSES, statusChip } from "./table.js";

/** @type {Record<string, string>} */
const SENTENCES = {
  green: "The launches came like those of independent users.",
  amber: "The launches came nearly like those of independent users.",
  red: "The launches did not come like those of independent users.",
  "not enough data": "There are not enough launches yet to tell whether they come like those of independent users.",
};

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
      h("p", { class: "lr-verdict-text" }, verdict.sentence || SENTENCES[overall] || ""), term(context, "verdict", "What is this?")),
    // A red check under "not enough data" would look like a contradiction.
    ...(loud.length && !["green", "amber", "red"].includes(overall) ? [h("p", { class: "lr-verdict-early" }, "There is no verdict yet; what is already visible:")] : []),
    ...(loud.length ? [list(inCausalOrder(loud))] : []),
    ...(green.length ? [group(`${formatNumber(green.length, 0)} green`, green)] : []),
    ...(waiting.length ? [group(`${formatNumber(waiting.length, 0)} without enough data`, waiting)] : []),
  ];
}

/** Worst first, but what follows from another check comes after it. @param {any[]} checks @returns {any[]} */
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

/** What was seen, what it means and what to do; in one paragraph where the document has only that. @param {any} check */
function words(check) {
  if (!check.seen) return [h("p", {}, String(check.explanation ?? ""))];
  return [
    h("p", {}, String(check.seen)),
    check.after ? h("p", {}, `Follows from: ${check.after}.`) : check.meaning && h("p", {}, String(check.meaning)),
    !check.after && check.advice && h("p", { class: "lr-advice" }, String(check.advice)),
  ].filter(Boolean);
}

/** Value and bound, where they are numbers, a range or short words. @param {any} check */
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
