// Every partition of the live table: one row for each month, one square for each day, darker for more rows.

import { h, pill, svg, table } from "./dom.js";
import { count, short, time } from "./formats.js";

// In units of the picture: a square's edge, the distance of two squares, and the room for the months' names.
const SIZE = 11;
const STEP = 13;
const LEFT = 46;
const SOON_DAYS = 7;

/** The shade of a square, from 0 to 4. `most`: the rows of the largest partition. */
function level(rows, most) {
  return Math.min(4, Math.floor((rows / most) * 5));
}

function describe([date, rows, retained, days]) {
  const end = days < 0 ? `overdue for removal by ${-days} ${days === -1 ? "day" : "days"}` : days === 0 ? "expires today" : `expires in ${days} ${days === 1 ? "day" : "days"}`;
  return `${date}: ${count(rows)} rows, ${count(retained)} of them retained; ${end}.`;
}

/** The paragraph on the newest content audit, which compared a partition of target with the published files. */
function auditResult(audit, now) {
  if (!audit) return h("p", { class: "muted" }, "No partition has been audited yet.");
  const wrong = audit.unequal_dates;
  return h("p", {},
    pill(wrong.length ? "unequal" : "equal", wrong.length ? "fail" : "pass"),
    ` Last audited: ${audit.date} (generation ${audit.generation}), `, time(audit.audited_at, now), " UTC.",
    wrong.length ? ` Not what was published: ${wrong.join(", ")}.` : null);
}

export function renderCalendar(container, { dates, audit, now }) {
  if (!dates.length) {
    container.replaceChildren();
    return;
  }
  const most = Math.max(...dates.map((d) => d[1]), 1);
  const months = [...new Set(dates.map((d) => d[0].slice(0, 7)))].sort().reverse();
  const readout = h("p", { class: "readout", "aria-live": "polite" });
  const squares = dates.map((entry, number) => {
    const [date, rows, , days] = entry;
    const mark = days < 0 ? " overdue" : days <= SOON_DAYS ? " expires" : "";
    return svg("rect", {
      class: `level-${level(rows, most)}${mark}`, width: SIZE, height: SIZE, rx: 2, "data-number": number,
      x: LEFT + (Number(date.slice(8)) - 1) * STEP, y: 12 + months.indexOf(date.slice(0, 7)) * STEP,
    });
  });
  let selected = -1;
  const select = (number) => {
    if (!squares[number]) return;
    squares[selected]?.classList.remove("selected");
    squares[number].classList.add("selected");
    selected = number;
    readout.textContent = describe(dates[number]);
  };
  const overdue = dates.filter((d) => d[3] < 0).length;
  const soon = dates.filter((d) => d[3] >= 0 && d[3] <= SOON_DAYS).length;
  const summary = `${dates.length} partitions, ${dates[0][0]} to ${dates[dates.length - 1][0]}, ${short(dates.reduce((sum, d) => sum + d[1], 0))} rows; ${soon} ${soon === 1 ? "expires" : "expire"} within ${SOON_DAYS} days${overdue ? `, ${overdue} overdue for removal` : ""}.`;
  readout.textContent = summary;
  const daysByKey = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 30, ArrowDown: -30 };
  const picture = svg("svg", {
    class: "calendar", viewBox: `0 0 ${LEFT + 31 * STEP} ${14 + months.length * STEP}`, tabindex: 0, role: "img",
    "aria-label": `${summary} Arrow keys go from day to day.`,
    onpointermove: (event) => { const n = event.target.getAttribute("data-number"); if (n !== null) select(Number(n)); },
    onfocus: () => { if (selected < 0) select(dates.length - 1); },
    onkeydown: (event) => {
      if (!(event.key in daysByKey)) return;
      event.preventDefault();
      select(Math.min(dates.length - 1, Math.max(0, (selected < 0 ? dates.length - 1 : selected) + daysByKey[event.key])));
    },
  },
    [1, 5, 10, 15, 20, 25, 30].map((n) => svg("text", { x: LEFT + (n - 1) * STEP + SIZE / 2, y: 8, "text-anchor": "middle" }, String(n))),
    months.map((month, row) => svg("text", { x: 0, y: 12 + row * STEP + 9 }, month)),
    squares);
  container.replaceChildren(
    h("ul", { class: "key" }, h("li", {}, `darker: more rows (up to ${short(most)} a day)`), h("li", {}, h("span", { class: "swatch expires" }), `expires within ${SOON_DAYS} days`)),
    picture, readout, auditResult(audit, now),
    h("details", {}, h("summary", {}, "As a table, by month"), byMonth(dates, months)),
  );
}

function byMonth(dates, months) {
  const rows = months.map((month) => {
    const days = dates.filter((d) => d[0].startsWith(month));
    return { month, days: days.length, rows: days.reduce((s, d) => s + d[1], 0), retained: days.reduce((s, d) => s + d[2], 0), next: Math.min(...days.map((d) => d[3])) };
  });
  return table("Partitions by month", [
    { title: "Month", short: true, cell: (r) => r.month },
    { title: "Partitions", number: true, cell: (r) => String(r.days) },
    { title: "Rows", number: true, cell: (r) => count(r.rows) },
    { title: "Retained", number: true, cell: (r) => count(r.retained) },
    { title: "First expires in", number: true, cell: (r) => (r.next < 0 ? "overdue" : `${r.next} d`) },
  ], rows);
}
