// What readers see right now, and whether the promise holds: the part that is read from across the room.

import { h, pill } from "./dom.js";
import { count, duration, moment } from "./words.js";

function fact(term, value, note) {
  return h("div", {}, h("dt", {}, term), h("dd", {}, value, note ? h("small", {}, note) : null));
}

export function renderHero(place, view) {
  const { state, live } = view;
  place.className = `hero ${state.name.replaceAll(" ", "-")}`;
  const facts = live ? [
    fact("Snapshot", live.snapshot_id, `generation ${live.generation}`),
    fact("Age", duration(live.age_s), `arrived ${moment(live.arrived_at, view.now)}`),
    fact("Lag", live.lag_s === null ? live.kind : duration(live.lag_s), `promised: ${view.promise_minutes} min`),
    fact("Swapped", moment(live.swapped_at, view.now), `by ${live.engine}, ${live.plans.join(", ")}`),
    fact("Rows", count(live.rows), `${view.dates.length} ${view.dates.length === 1 ? "partition" : "partitions"}`),
    fact("Waiting", view.waiting.length ? String(view.waiting.length) : "none",
      view.waiting.length ? `since ${moment(view.waiting[0].arrived_at, view.now)}` : "nothing to publish"),
  ] : [
    fact("Promise", `${view.promise_minutes} min`, "from arrival to swap"),
    fact("Retention", `${view.retention_days} days`),
    fact("Waiting", view.waiting.length ? String(view.waiting.length) : "none"),
  ];
  place.replaceChildren(...[
    h("p", { class: "headline" }, pill(capital(state.name), state.name), h("span", {}, state.headline)),
    state.reasons.length ? h("ul", { class: "reasons" }, state.reasons.map((reason) => h("li", {}, reason))) : null,
    h("p", { class: "muted" }, view.description, " ", h("span", {}, `Table ${view.target}, owner ${view.owner}.`)),
    h("dl", {}, facts),
  ].filter(Boolean));
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);
