// The cost of a snapshot, compared with one MERGE and one QUALIFY over the same table.

import { h, svg } from "./dom.js";
import { usd } from "./formats.js";

function bar(share, kind) {
  return svg("svg", { "aria-hidden": "true" },
    svg("rect", { class: "ground", width: "100%", height: 12, rx: 3 }),
    svg("rect", { class: kind, width: `${Math.max(share * 100, 0.4).toFixed(2)}%`, height: 12, rx: 3 }));
}

const COMPARED_FROM = 0.01; // US dollars of a MERGE; the price of a smaller table compares roundings

const lacksSpark = ({ spark_usd: spark, runs_spark: runs }) => runs && spark === null;

/** The text of the amount `ours`. It says that Spark comes on top if the cost of Spark is unknown for `entry`, the publish that costs this
 * amount. */
export const amount = (ours, entry) => `${usd(ours)}${lacksSpark(entry) ? " + Spark" : ""}`;

function bars(ours, entry, label) {
  const { merge_usd: merge, qualify_usd: qualify } = entry;
  const most = Math.max(ours, merge, qualify) || 1;
  return h("div", { class: "bars" },
    h("span", {}, label), lacksSpark(entry) ? h("span", { class: "muted" }, "no bar: the part of Spark is not known") : bar(ours / most, "ours"), h("strong", {}, amount(ours, entry)),
    h("span", {}, "One MERGE"), bar(merge / most, "theirs"), h("span", {}, usd(merge)),
    h("span", {}, "One QUALIFY"), bar(qualify / most, "theirs"), h("span", {}, usd(qualify)));
}

function sparkPart(entry) {
  if (!entry.runs_spark) return "No Spark ran";
  return lacksSpark(entry) ? "The cost of Spark is not known here" : `Spark is ${usd(entry.spark_usd)} of it`;
}

/** Why no cost of a MERGE or QUALIFY is shown beside that of `live`. */
function notCompared(live) {
  return ["publish", "replay"].includes(live.kind)
    ? `What a MERGE or QUALIFY would have cost instead of this ${live.kind} is not known.`
    : `A ${live.kind} is not compared: nobody would run a MERGE or QUALIFY instead.`;
}

export function renderCost(container, live) {
  if (!live) {
    container.replaceChildren();
    return;
  }
  if (live.merge_usd === null) {
    container.replaceChildren(h("p", { class: "muted" }, notCompared(live)));
    return;
  }
  if (live.merge_usd < COMPARED_FROM) {
    container.replaceChildren(h("p", { class: "muted" }, "The table is so small that this publish, a MERGE and a QUALIFY each cost less than a cent."));
    return;
  }
  container.replaceChildren(
    h("p", { class: "figure" }, amount(live.usd, live), h("small", {}, " for this snapshot")),
    bars(live.usd, live, "This publish"),
    h("p", { class: "muted" }, `${sparkPart(live)}; the rest is billed by BigQuery on demand.`),
  );
}
