// The top of the page: the watchdog's verdict with its age, and the main figures of what readers see.

import { h, pill } from "./dom.js";
import { count, duration, time } from "./formats.js";

function figure(term, value, note) {
  return h("div", {}, h("dt", {}, term), h("dd", {}, value, note ? h("small", {}, note) : null));
}

function waitingFigure({ waiting, freshness, now }) {
  if (waiting.length) return figure("Waiting", String(waiting.length), ["since ", time(waiting[0].arrived_at, now)]);
  const next = freshness.next_expected_at;
  return figure("Waiting", "none", next ? ["next expected ", time(next, now)] : "nothing to publish");
}

function figures(view) {
  const { live, sla_minutes: sla, now } = view;
  if (!live) return [figure("Freshness SLA", `${sla} min`, "from arrival to swap"), figure("Retention", `${view.retention_days} days`), waitingFigure(view)];
  const lag = live.lag_s === null ? live.kind : h("span", { class: live.lag_s > sla * 60 ? "over" : null }, duration(live.lag_s));
  return [
    figure("Snapshot", live.snapshot_id, `generation ${live.generation}`),
    figure("Age", duration(live.age_s), ["arrived ", time(live.arrived_at, now)]),
    figure("Lag", lag, `SLA: ${sla} min`),
    figure("Swapped", time(live.swapped_at, now), `by ${live.engine}, ${live.plans.join(", ")}`),
    figure("Rows", count(live.rows), `${view.dates.length} ${view.dates.length === 1 ? "partition" : "partitions"}`),
    waitingFigure(view),
  ];
}

export function renderHero(container, view) {
  const { status, headline, check_age_s: age } = view.freshness;
  container.className = `hero ${status.replaceAll(" ", "-")}`;
  container.replaceChildren(...[
    h("p", { class: "headline" }, pill(capital(status), status), h("span", {}, headline),
      age === null ? null : h("small", { class: "muted" }, `checked ${duration(age)} ago`)),
    view.has_index ? h("p", { class: "muted" }, view.description, " ", h("span", {}, `Table ${view.target}, owner ${view.owner}.`)) : null,
    view.has_index ? h("dl", {}, figures(view)) : null,
  ].filter(Boolean));
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);
