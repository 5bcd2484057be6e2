// The day's arrivals on a line of 24 hours: expected ones as rings, deliveries that came as dots.

import { h, pill, svg, table } from "./dom.js";
import { bytes, clock } from "./words.js";

const LISTED = 8;
const DAY_MS = 24 * 60 * 60 * 1000;

/** Share of the day in its zone, as a percentage. */
function position(iso, zone) {
  const parts = new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
    .formatToParts(new Date(iso));
  const value = (type) => Number(parts.find((part) => part.type === type).value);
  return `${(((value("hour") * 60 + value("minute")) * 60000) / DAY_MS * 100).toFixed(2)}%`;
}

const words = (due) => (due.met ? "came" : due.overdue ? "overdue" : "not yet due");

export function renderToday(place, today) {
  const came = today.expected.filter((due) => due.met).length;
  const overdue = today.expected.filter((due) => due.overdue).length;
  const line = svg("svg", { class: "day", role: "img", "aria-label": `Arrivals on ${today.day}, a line of 24 hours` },
    svg("line", { class: "axis", x1: "0%", x2: "100%", y1: 16, y2: 16 }),
    [0, 6, 12, 18, 24].map((hour) => svg("text", {
      x: `${(hour / 24) * 100}%`, y: 42, "text-anchor": hour === 0 ? "start" : hour === 24 ? "end" : "middle",
    }, `${String(hour).padStart(2, "0")}:00`)),
    svg("line", { class: "clock", x1: position(`${today.now}Z`, today.zone), x2: position(`${today.now}Z`, today.zone), y1: 4, y2: 28 }),
    today.expected.map((due) => svg("circle", {
      class: `due ${due.met ? "met" : due.overdue ? "overdue" : ""}`, cx: position(due.at, today.zone), cy: 16, r: 8,
    }, svg("title", {}, `expected at ${due.clock}: ${words(due)}`))),
    today.seen.map((arrival) => svg("circle", {
      class: `came ${arrival.fate}`, cx: position(arrival.arrived_at, today.zone), cy: 16, r: 5,
    }, svg("title", {}, `snapshot ${arrival.snapshot_id}, ${clock(arrival.arrived_at)} UTC: ${arrival.fate}`))),
  );
  const summary = today.has_schedule
    ? `${came} of ${today.expected.length} expected have come${overdue ? `, ${overdue} overdue` : ""}.`
    : `${today.seen.length} came. The feed names no times at which snapshots are expected.`;
  place.replaceChildren(
    h("p", {}, summary, h("span", { class: "muted" }, ` ${today.day}, ${today.zone}`)),
    line,
    h("ul", { class: "key" },
      today.expected.map((due) => h("li", { class: due.overdue ? "over" : null }, `${due.clock} ${words(due)}`))),
    today.seen.length ? table("Arrivals today, newest first", [
      { title: "Arrived (UTC)", short: true, cell: (a) => clock(a.arrived_at) },
      { title: "Snapshot", cell: (a) => a.snapshot_id },
      { title: "Files", number: true, cell: (a) => String(a.files) },
      { title: "Size", number: true, cell: (a) => bytes(a.bytes) },
      { title: "State", short: true, cell: (a) => pill(a.fate) },
    ], [...today.seen].reverse().slice(0, LISTED)) : h("p", { class: "muted" }, "Nothing has come today."),
  );
}
