// The phases of the newest publish that has a lag. They add up to the lag (docs/costs-and-limits.md).

import { h, table } from "./dom.js";
import { duration } from "./formats.js";

const PHASES = {
  until_lease: "until the run acquired the lease: noticing, and runs of other deliveries or earlier tries that had to end",
  task_start: "the dedup task started",
  spark_start: "Spark started",
  dedup: "dedup job",
  load_start: "the load task started",
  load: "load into staging",
  checks: "checks, and the start of the swap",
  swap: "swap",
  queued: "jobs waited in BigQuery (PENDING); no other phase includes this time",
};

export function renderPhases(container, newest) {
  if (!newest) {
    container.replaceChildren();
    return;
  }
  const rows = Object.keys(PHASES).filter((name) => name in newest.phases).map((name) => [name, newest.phases[name]]);
  container.replaceChildren(h("details", {},
    h("summary", {}, `Where the ${duration(newest.lag_s)} until generation ${newest.generation} went`),
    table("Phases of the newest publish", [
      { title: "Phase", words: true, cell: ([name]) => PHASES[name] },
      { title: "In the ledger", short: true, cell: ([name]) => name },
      { title: "Took", number: true, cell: ([, seconds]) => duration(seconds) },
    ], rows)));
}
