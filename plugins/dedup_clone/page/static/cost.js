// The cost of a snapshot, compared with one MERGE and one QUALIFY over the same table, as it is and at its full size.

import { h, svg } from "./dom.js";
import { count, usd } from "./formats.js";

function bar(share, kind) {
  return svg("svg", { "aria-hidden": "true" },
    svg("rect", { class: "ground", width: "100%", height: 12, rx: 3 }),
    svg("rect", { class: kind, width: `${Math.max(share * 100, 0.4).toFixed(2)}%`, height: 12, rx: 3 }));
}

function bars(ours, { merge_usd: merge, qualify_usd: qualify }, label) {
  const most = Math.max(ours, merge, qualify) || 1;
  return h("div", { class: "bars" },
    h("span", {}, label), bar(ours / most, "ours"), h("strong", {}, usd(ours)),
    h("span", {}, "One MERGE"), bar(merge / most, "theirs"), h("span", {}, usd(merge)),
    h("span", {}, "One QUALIFY"), bar(qualify / most, "theirs"), h("span", {}, usd(qualify)));
}

const sparkPart = (spark) => (spark === null ? "The cost of Spark is not known here" : `Spark is ${usd(spark)} of it`);

function projected(projection) {
  if (!projection) return null;
  const { full_size_gb: size, times, spark_usd: spark } = projection;
  return h("div", { class: "projection" },
    h("h3", {}, `A complete snapshot at the full size, ${count(size)} GB`),
    bars(projection.usd + (spark ?? 0), projection, "This project"),
    h("p", { class: "muted" }, `${times >= 1 ? `${count(Math.round(times))} times` : "A part of"} the table as it is; rows keep their size. ${sparkPart(spark)}.`));
}

export function renderCost(container, { live, costs, projection }) {
  if (!live || live.merge_usd === null) {
    const words = live ? `A ${live.kind} is not compared: nobody would run a MERGE or QUALIFY instead.` : "Known after the first publish.";
    container.replaceChildren(...[h("p", { class: "muted" }, words), projected(projection)].filter(Boolean));
    return;
  }
  const saved = Math.min(costs.merge_usd, costs.qualify_usd) - costs.usd;
  container.replaceChildren(...[
    h("p", { class: "figure" }, usd(live.usd), h("small", {}, " for this snapshot")),
    bars(live.usd, live, "This publish"),
    h("p", { class: "muted" }, `${sparkPart(live.spark_usd)}; the rest is billed by BigQuery on demand. Over the last ${costs.publishes === 1 ? "publish" : `${costs.publishes} publishes`}: ` +
      `${usd(costs.usd)}, by MERGE or QUALIFY at least ${usd(Math.min(costs.merge_usd, costs.qualify_usd))}` +
      `${saved > 0 ? `: ${usd(saved)} less.` : "."}`),
    projected(projection),
  ].filter(Boolean));
}
