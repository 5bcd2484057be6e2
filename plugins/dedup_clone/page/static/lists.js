// Tables of what happened: publishes and deliveries.

import { openInAirflow } from "./airflow.js";
import { amount } from "./cost.js";
import { h, pill, table } from "./dom.js";
import { bytes, count, duration, time, withTimes } from "./formats.js";

const FIRST_SHOWN = 12;
const OVERLAP = "Row groups of the files whose values of the first clustering column lie among those of other row groups. Where many do, files " +
  "in the order of the clustering columns, or dedup.plan: rewrite, let filters read less.";
const DROPPED = "Rows of the deliveries that are older than the retention, and rows of dates that have left it.";

/** A link to a page of Airflow, opened by Airflow's own router. */
function airflowLink(steps, text) {
  const path = steps.map(encodeURIComponent).join("/");
  return h("a", { href: `../${path}`, onclick: (event) => { event.preventDefault(); openInAirflow(path); } }, text);
}

/** A link to a run, or to the DAG if there is no run. */
export const runLink = (dagId, runId, text) => airflowLink(["dags", dagId, ...(runId ? ["runs", runId] : [])], text);

/** A link to the page of Airflow on which a run's approval is given. */
export const answerLink = (dagId, runId, taskId, text) =>
  airflowLink(["dags", dagId, "runs", runId, "tasks", taskId, "required_actions"], text);

/** Renders a table of the first rows, with a button that shows all. */
function renderTable(container, label, columns, all) {
  const show = (rows) => container.replaceChildren(
    table(label, columns, rows),
    rows.length < all.length ? h("button", { class: "quiet", type: "button", onclick: () => show(all) }, `Show all ${all.length}`) : "");
  show(all.slice(0, FIRST_SHOWN));
}

/** The cell that says until when, or from what, a rollback can restore the publish. */
function restorable({ restorable: from, until }, now) {
  if (from === "time travel") return ["until ", time(until, now)];
  return from === "files" ? "from its files" : "no longer";
}

export function renderPublishes(container, { publishes, sla, now }) {
  if (!publishes.length) {
    container.replaceChildren();
    return;
  }
  const columns = [
    { title: "Generation", number: true, cell: (p) => runLink(p.dag_id, p.run_id, String(p.generation)) },
    { title: "Snapshot", number: true, cell: (p) => p.snapshot_id },
    { title: "Swapped", short: true, cell: (p) => time(p.swapped_at, now) },
    { title: "Lag", number: true, cell: (p) => p.lag_s === null ? p.kind : h("span", { class: p.lag_s > sla * 60 ? "over" : null }, duration(p.lag_s)) },
    { title: "Reason", words: true, cell: (p) => p.restores ? `restores ${p.restores}: ${p.reason}` : p.reason },
    { title: "Rows", number: true, cell: (p) => count(p.rows) },
    { title: "New", number: true, cell: (p) => count(p.new_rows) },
    { title: "Changed", number: true, cell: (p) => count(p.changed_rows) },
    { title: "Retained", number: true, cell: (p) => count(p.retained_rows) },
    { title: "Dropped", number: true, cell: (p) => h("span", { title: DROPPED }, count(p.dropped_rows)) },
    { title: "Plan", short: true, cell: (p) => [p.engine, p.plans.length ? `: ${p.plans.join(", ")}` : ""] },
    { title: "Cost", number: true, cell: (p) => amount(p.usd, p) },
    { title: "Can be restored", short: true, cell: (p) => restorable(p, now) },
    ...(publishes.some((p) => p.cluster_overlap !== null)
      ? [{ title: "Overlap", number: true, cell: (p) => p.cluster_overlap === null ? "" : h("span", { title: OVERLAP }, `${Math.round(p.cluster_overlap * 100)} %`) }] : []),
  ];
  renderTable(container, "Publishes, newest first", columns, [...publishes].reverse());
}

export function renderDeliveries(container, { deliveries, now }) {
  if (!deliveries.length) {
    container.replaceChildren();
    return;
  }
  renderTable(container, "Deliveries, newest first", [
    { title: "Snapshot", number: true, cell: (d) => d.snapshot_id },
    { title: "Arrived", short: true, cell: (d) => time(d.arrived_at, now) },
    { title: "Files", number: true, cell: (d) => String(d.files) },
    { title: "Size", number: true, cell: (d) => bytes(d.bytes) },
    { title: "State", short: true, cell: (d) => pill(d.state) },
    { title: "Why", words: true, cell: (d) => withTimes(d.refusal) },
  ], [...deliveries].reverse());
}
