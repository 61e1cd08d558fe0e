// Tab 3: population over time against the plan.

import { createChart } from "./chart.js";
import { comings, profileAhead, rateOverTime, sessionLengths, usersOverTime } from "./charts-population.js";
import { h, setHidden, setText } from "./dom.js";
import { formatDuration, formatNumber, isNumber } from "./format.js";
import { createTiles } from "./tiles.js";

const count = (/** @type {any} */ value) => (isNumber(value) ? formatNumber(value, 0) : null);

/** @param {any} context */
export function createPopulation(context) {
  const model = h("p");
  const tiles = createTiles(context, [
    { title: "Concurrent users", term: "concurrency", value: ({ population: p, status }) => count(p.series?.users?.findLast(isNumber) ?? status?.users) },
    { title: "Sessions ended", term: "session", value: ({ population: p }) => count(p.sessions?.n) },
    { title: "Mean session", value: ({ population: p }) => (p.sessions?.n ? formatDuration(p.sessions.mean_s) : null) },
    { title: "CoV of sessions", term: "cov", value: ({ population: p }) => (isNumber(p.sessions?.cov) ? formatNumber(p.sessions.cov, 2) : null) },
    { title: "95 % of sessions", value: ({ population: p }) => (isNumber(p.sessions?.p95_s) ? `≤ ${formatDuration(p.sessions.p95_s)}` : null) },
    { title: "Turned away", term: "balked", value: ({ population: p }) => count(p.balked) },
    { title: "Missed", term: "missed", value: ({ population: p }) => (p.missed ? count(p.missed) : null) },
    { title: "Late arrivals", term: "late", value: ({ population: p }) => count(p.late) },
    { title: "Aborted", value: ({ population: p }) => count(p.cut_short) },
  ]);
  const users = createChart(context, { title: "Users over time", term: "expected", name: "users-over-time", legend: ["band"] });
  const rate = createChart(context, { title: "Launch rate", term: "rate", name: "rate-over-time", legend: ["launch"] });
  const flow = createChart(context, { title: "Arrivals and departures", term: "arrivals", name: "arrivals" });
  const lengths = createChart(context, { title: "Session lengths", term: "session", name: "session-lengths" });
  const ahead = createChart(context, { title: "Profile ahead", term: "profile", name: "profile-ahead" });
  const root = h("div", { class: "lr-tab" }, model, tiles.root,
    h("div", { class: "lr-grid" }, users.root, rate.root, flow.root, lengths.root, ahead.root));
  model.className = "lr-lead";

  /** @param {{population: any, summary: any, status?: any}} data */
  function update(data) {
    const { population, summary } = data;
    const model_ = population.model;
    setText(model, model_ ? `${model_.name}${model_.text ? `: ${model_.text}` : ""}`
      : "A fixed number of users, started by Locust; its ramp sets arrivals and session lengths.");
    tiles.update(data);
    const { counts, launches } = seriesOf(population, summary);
    const known = (/** @type {string} */ key) => (counts[key] ?? []).some(isNumber);
    users.update(known("users") ? usersOverTime(counts) : "The curve begins with the first users.");
    rate.update(launches.rate.some(isNumber) ? rateOverTime(launches) : "The curve begins with the first launches.");
    const fixed = "This run has a fixed number of users. A run with a population shows here";
    flow.update(known("arrivals") && known("departures") ? comings(counts)
      : model_ ? "Arrivals and departures appear with the first arrivals." : `${fixed} its arrivals and departures.`);
    const sessions = population.sessions;
    lengths.update(sessions?.n && sessions.counts?.length ? sessionLengths(sessions)
      : model_ ? "The histogram appears after the first sessions." : `${fixed} the lengths of its sessions.`);
    const profile = population.profile;
    setHidden(ahead.root, !profile?.t_s?.length);
    if (profile?.t_s?.length) ahead.update(profileAhead(profile));
  }
  return { root, update };
}

/** Return users and rate; without a population they come from the launches. @param {any} population @param {any} summary */
function seriesOf(population, summary) {
  const own = population.series;
  const time = summary?.charts?.over_time ?? {};
  // The rate of the unfinished last step would be too low.
  const open = (time.t_s?.length ?? 0) > 2 && time.t_s.at(-1) + time.width_s[0] / 2 > (time.end_s?.[0] ?? Infinity);
  const rate = (time.rate ?? []).map((/** @type {number} */ one, /** @type {number} */ i) => (open && i === time.rate.length - 1 ? null : one));
  const launches = { t_s: time.t_s ?? [], rate, planned_rate: time.planned_rate };
  if (!own?.t_s?.length) return { counts: { t_s: launches.t_s, users: time.users ?? [] }, launches };
  return { counts: own, launches: own.rate ? own : launches };
}
