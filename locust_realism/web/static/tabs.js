// The tabs in their order: title, needed documents, function that draws it.

import { createCapacity } from "./tab-capacity.js";
import { createGenerator } from "./tab-generator.js";
import { createLaunches } from "./tab-launches.js";
import { createPercentiles } from "./tab-percentiles.js";
import { createPopulation } from "./tab-population.js";

export const TABS = [
  { title: "Launches", needs: ["summary", "status"], create: createLaunches },
  { title: "Percentiles", needs: ["summary", "status", "whole"], create: createPercentiles },
  { title: "Population", needs: ["population", "summary", "status"], create: createPopulation },
  { title: "Generator", needs: ["generator", "summary", "status"], create: createGenerator },
  { title: "Capacity", needs: ["summary", "status"], create: createCapacity },
];
