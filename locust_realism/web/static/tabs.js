// The tabs, in their order: which documents each needs and what draws it.

import { createLaunches } from "./tab-launches.js";
import { createPercentiles } from "./tab-percentiles.js";

export const TABS = [
  { title: "Launches", needs: ["summary", "status"], create: createLaunches },
  { title: "Percentiles", needs: ["summary", "status", "whole"], create: createPercentiles },
];
