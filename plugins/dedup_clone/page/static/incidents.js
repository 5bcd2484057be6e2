// What a person should know or do now: snapshots that a check stopped, approvals that wait, and open incidents.

import { found } from "./checks.js";
import { h, pill, table } from "./dom.js";
import { duration, time, withTimes } from "./formats.js";
import { answerLink, runLink } from "./lists.js";
import { markdown } from "./markdown.js";

function definitionList(pairs) {
  return h("dl", { class: "facts" }, pairs.filter(([, value]) => value).map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

/** A link to the entry of the incident's kind in the runbook; plain text where the profile names no address. */
function runbookLink(runbook, { kind, name }) {
  if (!/^https?:/.test(runbook)) return runbook ? `${runbook}, ${name}` : null;
  return h("a", { href: `${runbook}#${kind}`, target: "_blank", rel: "noopener" }, name);
}

/** Facts of incidents about the run that a card is about: they have no card of their own. */
const ofTheRun = (incidents, { now, runbook }) => incidents.map((one) =>
  ["Incident", [runbookLink(runbook, one) ?? one.name, ", since ", time(one.since, now)]]);

function incident(one, { now, runbook, readersSee }) {
  const { severity, since, what, next_step: next, dag_id: dag, run_id: run } = one;
  return h("article", { class: `incident ${severity}` },
    h("h3", {}, pill(severity), " ", withTimes(what[0].toUpperCase() + what.slice(1))),
    definitionList([
      ["Since", [time(since, now), ` (${duration((new Date(now) - new Date(since)) / 1000)})`]],
      ["Readers see", withTimes(readersSee)],
      ["Next step", withTimes(next)],
      [run ? "Run" : "DAG", dag ? runLink(dag, run, run || dag) : null],
      ["Runbook", runbookLink(runbook, one)],
    ]));
}

/** A snapshot that checks stopped, their results, and how to accept, discard or correct it. `isHeld`: later ones are published without it. */
function stopped({ snapshot_id: snapshot, marker_generation: marker, dag_id: dag, run_id: run, failed, acceptable, is_before_dedup: early }, isHeld, incidents, view) {
  const fill = (detail) => () => document.getElementById("replay").dispatchEvent(new CustomEvent("fill", { detail: { snapshot, marker, checks: [], ...detail } }));
  const button = (detail, text) => h("button", { type: "button", onclick: fill(detail) }, text);
  return h("article", { class: "incident alert" },
    h("h3", {}, pill(isHeld ? "held" : "stopped"), ` Snapshot ${snapshot} was stopped by ${failed.length === 1 ? "a check" : `${failed.length} checks`} before the swap`),
    table("Why it was stopped", [
      { title: "Check", short: true, cell: (f) => f.check },
      { title: "Found", words: true, cell: found },
      { title: "Expected", words: true, cell: (f) => f.expected },
    ], failed),
    definitionList([
      [acceptable ? "If the snapshot is right" : "Next step", acceptable
        ? view.mayStart ? button({ checks: failed.map((f) => f.check) }, "Accept with a reason …") : "somebody who may start runs accepts the check with a reason, in a replay."
        : `${failed.map((f) => `${f.check}: ${f.next_step}`).join(" ")} ${early ? "The publish is tried again by itself, or clear its run"
          : "Then replay it"}: this check cannot be accepted.`],
      ["If it is wrong", isHeld ? [view.mayStart ? button({ discard: true }, "Discard with a reason …") : null,
        " A corrected delivery of it, or the next snapshot, is published without anything else to do."] : null],
      ...ofTheRun(incidents, view),
      ["Run", runLink(dag, run, run)],
    ]));
}

function approval({ subject, body, created_at: since, assigned_users: users, task_instance: task }, incidents, view) {
  return h("article", { class: "incident warning" },
    h("h3", {}, pill("waits for a person", "waiting"), " ", subject),
    definitionList([
      ["Since", time(since, view.now)],
      ...ofTheRun(incidents, view),
      ["Who is asked", users?.length ? users.map((user) => user.name).join(", ") : `everybody who may edit runs of ${task.dag_id}`],
      ["Answer", answerLink(task.dag_id, task.dag_run_id, task.task_id, "Required Actions of this run")],
    ]),
    body ? h("details", {}, h("summary", {}, "What is asked"), h("div", { class: "report" }, markdown(body, "What is asked"))) : null);
}

export function renderIncidents(container, view) {
  const runs = [view.stopped?.run_id, ...view.held.map((one) => one.run_id), ...view.approvals.map(({ task_instance: task }) => task.dag_run_id)];
  const cards = view.held.map((one) => `publish_failed-held-${one.snapshot_id}-${one.marker_generation}`);
  const incidents = view.incidents.filter(({ name }) => !cards.includes(name)); // held deliveries have cards
  const of = (run) => incidents.filter((one) => one.run_id && one.run_id === run);
  const items = [
    view.stopped ? stopped(view.stopped, false, of(view.stopped.run_id), view) : null,
    ...view.held.map((one) => stopped(one, true, of(one.run_id), view)),
    ...view.approvals.map((one) => approval(one, of(one.task_instance.dag_run_id), view)),
    ...incidents.filter((one) => !one.run_id || !runs.includes(one.run_id)).map((one) => incident(one, view)),
  ].filter(Boolean);
  container.replaceChildren(...items);
}
