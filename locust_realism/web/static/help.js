// The help page: every term, and the addresses of the JSON documents.

import { h } from "./dom.js";
import { termList } from "./offline.js";
import { TERMS } from "./terms.js";

const ROUTES = [
  ["api/status", "State of the run, requests recorded and lost, errors and warnings."],
  ["api/summary", "Verdict, launches, response times, groups, dispersion, stages, capacity and curves of the whole run."],
  ["api/summary?window=minute", "The same of the last minute; also reset (since Reset Stats) and FROM..TO in seconds since the start, such as 60..120."],
  ["api/population", "Users over time against the expected curve, arrivals, departures, sessions, planned profile."],
  ["api/generator", "Health of the load generator by worker, with findings in plain words."],
  ["report", "The report of this run as one page that opens offline."],
];

const root = document.getElementById("help");
if (root) {
  const media = window.matchMedia("(prefers-color-scheme: dark)");
  const dress = () => { root.dataset.theme = media.matches ? "dark" : "light"; };
  media.addEventListener("change", dress);
  dress();
  root.append(termList(Object.keys(TERMS)), h("section", { "aria-label": "Data" }, h("h2", { class: "lr-part" }, "Data"),
    h("div", { class: "lr-scroll", tabindex: "0", role: "region", "aria-label": "Addresses" }, h("table", { class: "lr-table lr-routes" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Address"), h("th", { scope: "col" }, "Contents"))),
      h("tbody", {}, ...ROUTES.map(([path, text]) => h("tr", {}, h("th", { scope: "row" }, h("a", { href: path }, path)), h("td", {}, text))))))));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}
