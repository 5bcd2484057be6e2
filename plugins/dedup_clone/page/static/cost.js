// The cost of a snapshot's queries, compared with one MERGE and one QUALIFY over the same table.

import { h, svg } from "./dom.js";
import { usd } from "./formats.js";

function bar(share, kind) {
  return svg("svg", { "aria-hidden": "true" },
    svg("rect", { class: "ground", width: "100%", height: 12, rx: 3 }),
    svg("rect", { class: kind, width: `${Math.max(share * 100, 0.4).toFixed(2)}%`, height: 12, rx: 3 }));
}

export function renderCost(container, { live, costs }) {
  if (!live || live.merge_usd === null) {
    const words = live ? `A ${live.kind} is not compared: nobody would run a MERGE or QUALIFY instead.` : "Known after the first publish.";
    container.replaceChildren(h("p", { class: "muted" }, words));
    return;
  }
  const most = Math.max(live.query_usd, live.merge_usd, live.qualify_usd) || 1;
  const saved = Math.min(costs.merge_usd, costs.qualify_usd) - costs.query_usd;
  container.replaceChildren(
    h("p", { class: "figure" }, usd(live.query_usd), h("small", {}, " for the queries of this snapshot")),
    h("div", { class: "bars" },
      h("span", {}, "This publish"), bar(live.query_usd / most, "ours"), h("strong", {}, usd(live.query_usd)),
      h("span", {}, "One MERGE"), bar(live.merge_usd / most, "theirs"), h("span", {}, usd(live.merge_usd)),
      h("span", {}, "One QUALIFY"), bar(live.qualify_usd / most, "theirs"), h("span", {}, usd(live.qualify_usd))),
    h("p", { class: "muted" }, `Bytes billed by BigQuery at its on-demand price. Over the last ${costs.publishes === 1 ? "publish" : `${costs.publishes} publishes`}: ` +
      `${usd(costs.query_usd)}, by MERGE or QUALIFY at least ${usd(Math.min(costs.merge_usd, costs.qualify_usd))}` +
      `${saved > 0 ? `: ${usd(saved)} less.` : "."}`),
  );
}
