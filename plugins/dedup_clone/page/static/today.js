// The day's arrivals on a line of 24 hours: expected ones as rings, deliveries as dots.

import { h, pill, svg, table } from "./dom.js";
import { bytes, clock, local, time, timeAs } from "./formats.js";

const LISTED = 8; // arrivals in the table
const DAY_MS = 24 * 60 * 60 * 1000;

/** Where a time lies in its day in `zone`, as a percentage of 24 hours. */
function position(iso, zone) {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
    .formatToParts(new Date(iso));
  const value = (type) => Number(parts.find((part) => part.type === type).value);
  return `${(((value("hour") * 60 + value("minute")) * 60000) / DAY_MS * 100).toFixed(2)}%`;
}

const STATES = { met: "arrived", skipped: "did not arrive", overdue: "overdue", pending: "not yet due" };

export function renderToday(container, today) {
  const [met, overdue] = ["met", "overdue"].map((state) => today.expected.filter((expected) => expected.state === state).length);
  const line = svg("svg", { class: "day", role: "img", "aria-label": `Arrivals on ${today.day}, a line of 24 hours` },
    svg("line", { class: "axis", x1: "0%", x2: "100%", y1: 16, y2: 16 }),
    [0, 6, 12, 18, 24].map((hour) => svg("text", {
      x: `${(hour / 24) * 100}%`, y: 42, "text-anchor": hour === 0 ? "start" : hour === 24 ? "end" : "middle",
    }, `${String(hour).padStart(2, "0")}:00`)),
    svg("line", { class: "clock", x1: position(`${today.now}Z`, today.zone), x2: position(`${today.now}Z`, today.zone), y1: 4, y2: 28 }),
    today.expected.map((expected) => svg("circle", {
      class: `expected ${expected.state}`, cx: position(expected.at, today.zone), cy: 16, r: 8,
    }, svg("title", {}, `expected at ${expected.clock} (${local(expected.at)}): ${STATES[expected.state]}`))),
    today.seen.map((arrival) => svg("circle", {
      class: `arrival ${arrival.state}`, cx: position(arrival.arrived_at, today.zone), cy: 16, r: 5,
    }, svg("title", {}, `snapshot ${arrival.snapshot_id}, ${clock(arrival.arrived_at)} UTC (${local(arrival.arrived_at)}): ${arrival.state}`))),
  );
  const summary = today.has_schedule
    ? `${met} of ${today.expected.length} expected have arrived${overdue ? `, ${overdue} overdue` : ""}.`
    : `${today.seen.length} arrived. The feed has no expected arrival times.`;
  const unregistered = today.unregistered ? ` Not counted, because the watch DAG has not registered them: ${today.unregistered}.` : "";
  container.replaceChildren(
    h("p", {}, summary, unregistered, h("span", { class: "muted" }, ` ${today.day}, ${today.zone}`)),
    line,
    h("ul", { class: "key" },
      today.expected.map((expected) => h("li", { class: expected.state === "overdue" ? "over" : null }, timeAs(expected.at, expected.clock), ` ${STATES[expected.state]}`))),
    today.seen.length ? table("Arrivals today, newest first", [
      { title: "Arrived (UTC)", short: true, cell: (a) => time(a.arrived_at, a.arrived_at) },
      { title: "Snapshot", cell: (a) => a.snapshot_id },
      { title: "Files", number: true, cell: (a) => String(a.files) },
      { title: "Size", number: true, cell: (a) => bytes(a.bytes) },
      { title: "State", short: true, cell: (a) => pill(a.state) },
    ], [...today.seen].reverse().slice(0, LISTED)) : h("p", { class: "muted" }, today.unregistered ? "Nothing that was registered has arrived today." : "Nothing has arrived today."),
  );
}
