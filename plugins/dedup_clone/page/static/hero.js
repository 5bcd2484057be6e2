// The top of the page: the watchdog's verdict with its age, the run at work, and the main figures of what readers see.

import { h, pill } from "./dom.js";
import { count, duration, time, withTimes } from "./formats.js";
import { runLink } from "./lists.js";

function figure(term, value, note) {
  return h("div", {}, h("dt", {}, term), h("dd", {}, value, note ? h("small", {}, note) : null));
}

function waitingFigure({ deliveries, held, freshness, now }) {
  const waiting = deliveries.filter((delivery) => delivery.state === "waiting");
  const number = freshness.waiting ?? waiting.length; // the headline's number, unless the watchdog is silent
  if (number) return figure("Waiting", String(number), waiting.length ? ["since ", time(waiting[0].arrived_at, now)] : "not registered yet");
  if (held?.length) return figure("Held", String(held.length), "stopped by a check");
  const next = freshness.next_expected_at;
  return figure("Waiting", "none", next ? ["next expected ", time(next, now)] : "nothing to publish");
}

function figures(view) {
  const { live, sla_minutes: sla, now } = view;
  if (!live) return [figure("Freshness SLA", `${sla} min`, "from arrival to swap"), figure("Retention", `${view.retention_days} days`), waitingFigure(view)];
  const lag = live.lag_s === null ? live.kind : h("span", { class: live.lag_s > sla * 60 ? "over" : null }, duration(live.lag_s));
  return [
    figure("Snapshot", live.snapshot_id, `generation ${live.generation}`),
    figure("Age", duration((new Date(now) - new Date(live.arrived_at)) / 1000), ["arrived ", time(live.arrived_at, now)]),
    figure("Lag", lag, `SLA: ${sla} min`),
    figure("Swapped", time(live.swapped_at, now), `by ${[live.engine, ...live.plans].join(", ")}`),
    figure("Rows", count(live.rows), `${view.dates.length} ${view.dates.length === 1 ? "partition" : "partitions"}`),
    waitingFigure(view),
  ];
}

/** How the first snapshot is delivered. */
function firstLanding({ feed, landing_folder: folder, landing_files: files, marker }) {
  return h("div", { class: "first-landing" },
    h("p", {}, "Deliver the first snapshot with any client of Cloud Storage, the marker last. It is published without anything else to do."),
    h("pre", {}, `${folder}snapshot_id=1/${files}\n${folder}snapshot_id=1/${marker}`),
    h("p", { class: "muted" }, "On the local stack: ", h("code", {}, `make land FEED=${feed}`)));
}

/** The tasks of publish, bootstrap, rebuild and erasure that run the Spark job. */
const SPARK_TASKS = ["dedup_snapshot", "dedup_existing", "dedup_rebuilt", "erase_rows"];

/** The line about the run that holds the lease: its task, the Spark tasks that are done, and since when. Null if there is none, or
 * if it has ended without releasing the lease. `running.task`: the result of `taskAtWork`. */
function runAtWork({ running, now }) {
  if (!running || running.task === false) return null;
  const { dag_id: dag, run_id: run, kind, generation, taken_at: taken, progress, task } = running;
  const name = task ? `${task.task_id}${task.state === "running" ? "" : ` (${task.state.replaceAll("_", " ")})`}` : `${kind} of generation ${generation}`;
  const done = progress && (!task || SPARK_TASKS.includes(task.task_id)) ? progress : null;
  return h("p", { class: "at-work" },
    pill("at work"), " ", runLink(dag, run, name), done?.of ? `, ${count(done.done)} of ${count(done.of)} Spark tasks` : "",
    ", since ", time(task?.start_date ?? taken, now),
    done ? h("small", { class: "muted" }, ` phase ${done.phase}, reported `, time(done.at, now)) : null);
}

export function renderHero(container, view) {
  const { status, headline, next_step: step, check_age_s: age } = view.freshness;
  const focused = container.contains(document.activeElement) ? document.activeElement.textContent : null;
  container.className = `hero ${status.replaceAll(" ", "-")}`;
  container.replaceChildren(...[
    h("p", { class: "headline" }, pill(capital(status), status), h("span", {}, withTimes(headline)),
      h("small", { class: "muted" }, `checked ${duration(age)} ago`)),
    step ? h("p", { class: "to-do" }, "What to do: ", withTimes(step)) : null,
    view.has_history ? h("p", { class: "muted" }, view.description, " ", h("span", {}, `Table ${view.target}, owner ${view.owner}.`)) : null,
    runAtWork(view),
    view.has_history && !view.live && !view.deliveries.length ? firstLanding(view) : null,
    view.has_history ? h("dl", {}, figures(view)) : null,
  ].filter(Boolean));
  if (focused) [...container.querySelectorAll("a, button")].find((link) => link.textContent === focused)?.focus();
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);
