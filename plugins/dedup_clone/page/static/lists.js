// Tables of what happened: publishes, generations, and what was refused, failed or excluded.

import { openInAirflow } from "./airflow.js";
import { amount } from "./cost.js";
import { h, pill, table } from "./dom.js";
import { count, duration, time, withTimes } from "./formats.js";

const FIRST_SHOWN = 12;
const GENERATIONS_FIRST_SHOWN = 6;
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

/** Names the snapshot whose lag it is if that is not the newest one, because it came late. */
const lagOf = ({ lag_of: of, snapshot_id: newest }) => (of && of.snapshot_id !== newest ? ` of ${of.snapshot_id}` : "");

export function renderPublishes(container, { publishes, sla, now }) {
  if (!publishes.length) {
    container.replaceChildren();
    return;
  }
  const newest = [...publishes].reverse();
  const columns = [
    { title: "Generation", number: true, cell: (p) => runLink(p.dag_id, p.run_id, String(p.generation)) },
    { title: "Snapshot", number: true, cell: (p) => p.snapshot_id },
    { title: "Arrived", short: true, cell: (p) => time(p.arrived_at, now) },
    { title: "Swapped", short: true, cell: (p) => time(p.swapped_at, now) },
    { title: "Lag", number: true, cell: (p) => p.lag_s === null ? p.kind : [h("span", { class: p.lag_s > sla * 60 ? "over" : null }, duration(p.lag_s)), lagOf(p)] },
    { title: "Reason", words: true, cell: (p) => p.restores ? `restores ${p.restores}: ${p.reason}` : p.reason },
    { title: "Rows", number: true, cell: (p) => count(p.rows) },
    { title: "New", number: true, cell: (p) => count(p.new_rows) },
    { title: "Changed", number: true, cell: (p) => count(p.changed_rows) },
    { title: "Retained", number: true, cell: (p) => count(p.retained_rows) },
    { title: "Dropped", number: true, cell: (p) => h("span", { title: DROPPED }, count(p.dropped_rows)) },
    { title: "Plan", short: true, cell: (p) => [p.engine, p.plans.length ? `: ${p.plans.join(", ")}` : ""] },
    { title: "Cost", number: true, cell: (p) => amount(p.usd, p) },
    ...(publishes.some((p) => p.cluster_overlap !== null)
      ? [{ title: "Overlap", number: true, cell: (p) => p.cluster_overlap === null ? "" : h("span", { title: OVERLAP }, `${Math.round(p.cluster_overlap * 100)} %`) }] : []),
  ];
  const show = (rows) => container.replaceChildren(
    table("Publishes, newest first", columns, rows),
    rows.length < newest.length
      ? h("button", { class: "quiet", type: "button", onclick: () => show(newest) }, `Show all ${newest.length}`) : "");
  show(newest.slice(0, FIRST_SHOWN));
}

/** The cell that says until when, or from what, a rollback can restore the generation. */
function restorable(generation, now) {
  if (generation.is_live) return pill("live", "fresh");
  if (generation.restorable === "time travel") return ["until ", time(generation.until, now)];
  return generation.restorable === "files" ? "from its files" : "no longer";
}

export function renderGenerations(container, { generations, now }) {
  if (!generations.length) {
    container.replaceChildren();
    return;
  }
  const show = (rows) => container.replaceChildren(
    table("Generations, newest first", [
      { title: "Generation", number: true, cell: (g) => String(g.generation) },
      { title: "Snapshot", number: true, cell: (g) => g.snapshot_id },
      { title: "Restores", number: true, cell: (g) => g.restores === null ? "–" : String(g.restores) },
      { title: "Swapped", short: true, cell: (g) => time(g.swapped_at, now) },
      { title: "Rows", number: true, cell: (g) => count(g.rows) },
      { title: "Can be restored", short: true, cell: (g) => restorable(g, now) },
    ], rows),
    h("p", { class: "muted" }, "Until: as far as BigQuery's time travel reaches. What is out of reach can be replayed."),
    rows.length < generations.length
      ? h("button", { class: "quiet", type: "button", onclick: () => show(generations) }, `Show all ${generations.length}`) : "");
  show(generations.slice(0, GENERATIONS_FIRST_SHOWN));
}

export function renderRefused(container, { refused, failures, excluded, now }) {
  const parts = [];
  if (refused.length) parts.push(h("h3", {}, "Refused deliveries"), table("Refused deliveries", [
    { title: "Snapshot", number: true, cell: (a) => a.snapshot_id },
    { title: "Arrived", short: true, cell: (a) => time(a.arrived_at, now) },
    { title: "Why", words: true, cell: (a) => [a.corrected_by ? h("strong", {}, `Corrected by delivery ${a.corrected_by}. `) : "", withTimes(a.reason)] },
  ], refused));
  if (failures.length) parts.push(h("h3", {}, "Attempts that published nothing"), table("Attempts that published nothing", [
    { title: "Generation", number: true, cell: (f) => runLink(f.dag_id, f.run_id, String(f.generation)) },
    { title: "Snapshot", number: true, cell: (f) => f.snapshot_id },
    { title: "Outcome", short: true, cell: (f) => pill(f.outcome, f.outcome === "refused" ? "refused" : "fail") },
    { title: "Why", words: true, cell: (f) => withTimes(f.reason) },
  ], [...failures].reverse().slice(0, FIRST_SHOWN)));
  if (excluded.length) parts.push(h("h3", {}, "Excluded by a rollback"),
    h("p", {}, excluded.join(", ")), h("p", { class: "muted" }, "They stay out until they are replayed or delivered again."));
  container.replaceChildren(...parts);
}
