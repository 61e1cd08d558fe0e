// The verdict in one sentence, and the checks that are not green.

import { h, setChildren } from "./dom.js";
import { formatNumber, isNumber } from "./format.js";
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
  const rank = (/** @type {any} */ check) => STATUSES[check.status]?.rank ?? 5;
  const checks = [...(verdict.checks ?? [])].sort((a, b) => rank(a) - rank(b));
  const loud = checks.filter((check) => check.status === "red" || check.status === "amber");
  const waiting = checks.filter((check) => check.status === "not enough data");
  const green = checks.filter((check) => check.status === "green");
  return [
    h("div", { class: "lr-verdict-head" }, statusChip(overall),
      h("p", { class: "lr-verdict-text" }, verdict.sentence || SENTENCES[overall] || ""), term(context, "verdict", "What is this?")),
    ...(loud.length ? [list(loud)] : []),
    ...(green.length ? [group(`${formatNumber(green.length, 0)} green`, green)] : []),
    ...(waiting.length ? [group(`${formatNumber(waiting.length, 0)} without enough data`, waiting)] : []),
  ];
}

function group(/** @type {string} */ title, /** @type {any[]} */ checks) {
  return h("details", { class: "lr-more" }, h("summary", {}, title), list(checks));
}

function list(/** @type {any[]} */ checks) {
  return h("ul", { class: "lr-checks" }, ...checks.map((check) => h("li", { "data-check": check.id },
    statusChip(check.status), h("div", {}, h("strong", {}, String(check.name ?? check.id)), figures(check),
      h("p", {}, String(check.explanation ?? ""))))));
}

/** Value and bound in brackets, where they are numbers or short words. @param {any} check */
function figures(check) {
  const words = [check.value, check.bound].map((value) =>
    (isNumber(value) ? formatNumber(value) : typeof value === "string" && value.length < 60 ? value : ""));
  if (!words[0]) return null;
  return h("span", { class: "lr-figures" }, ` ${words[0]}${words[1] ? ` (bound ${words[1]})` : ""}`);
}
