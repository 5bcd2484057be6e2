// The day's arrivals on a line of 24 hours: expected ones as rings, deliveries as dots.

import { h, svg } from "./dom.js";
import { clock, local, timeAs } from "./formats.js";


/** The time of day in `zone`, as `06:30`. */
const clockIn = (iso, zone) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
  .format(new Date(iso));

/** The date in `zone`, as `2026-11-20`. */
const dayIn = (iso, zone) => new Intl.DateTimeFormat("en-CA", { timeZone: zone }).format(new Date(iso));

/** Where a time lies in its day in `zone`, as a percentage of 24 hours. */
function position(iso, zone) {
  const [hours, minutes] = clockIn(iso, zone).split(":").map(Number);
  return `${((hours * 60 + minutes) / (24 * 60) * 100).toFixed(2)}%`;
}

const STATES = { met: "arrived", skipped: "did not arrive", overdue: "overdue", pending: "not yet due" };

/** `expected`: the expected times of some days, `deliveries`: those of all days. `zone`: the one of the expected times, else UTC. */
export function renderToday(container, { expected: times, zone, deliveries, now }) {
  const today = dayIn(now, zone);
  const expected = times.filter(({ at }) => dayIn(at, zone) === today);
  const seen = deliveries.filter(({ arrived_at: at }) => dayIn(at, zone) === today);
  const [met, overdue] = ["met", "overdue"].map((state) => expected.filter((one) => one.state === state).length);
  const line = svg("svg", { class: "day", role: "img", "aria-label": `Arrivals on ${today}, a line of 24 hours` },
    svg("line", { class: "axis", x1: "0%", x2: "100%", y1: 16, y2: 16 }),
    [0, 6, 12, 18, 24].map((hour) => svg("text", {
      x: `${(hour / 24) * 100}%`, y: 42, "text-anchor": hour === 0 ? "start" : hour === 24 ? "end" : "middle",
    }, `${String(hour).padStart(2, "0")}:00`)),
    svg("line", { class: "clock", x1: position(now, zone), x2: position(now, zone), y1: 4, y2: 28 }),
    expected.map(({ at, state }) => svg("circle", {
      class: `expected ${state}`, cx: position(at, zone), cy: 16, r: 8,
    }, svg("title", {}, `expected at ${clockIn(at, zone)} (${local(at)}): ${STATES[state]}`))),
    seen.map((arrival) => svg("circle", {
      class: `arrival ${arrival.state}`, cx: position(arrival.arrived_at, zone), cy: 16, r: 5,
    }, svg("title", {}, `snapshot ${arrival.snapshot_id}, ${clock(arrival.arrived_at)} UTC (${local(arrival.arrived_at)}): ${arrival.state}`))),
  );
  const summary = times.length
    ? `${met} of ${expected.length} expected have arrived${overdue ? `, ${overdue} overdue` : ""}.`
    : `${seen.length} arrived. The feed has no expected arrival times.`;
  container.replaceChildren(
    h("p", {}, summary, h("span", { class: "muted" }, ` ${today}, ${zone}`)),
    line,
    h("ul", { class: "key" },
      expected.map(({ at, state }) => h("li", { class: state === "overdue" ? "over" : null }, timeAs(at, clockIn(at, zone)), ` ${STATES[state]}`))),
  );
}
