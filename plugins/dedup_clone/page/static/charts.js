// Two charts of the last publishes: the lag of each, and the rows that each snapshot changed.

import { h } from "./dom.js";
import { colour } from "./theme.js";
import { count, duration, moment, short } from "./formats.js";

const HEIGHT = 220;
const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
// Distances between two labels of the time axis; none so short that two labels read the same.
const TIME_STEPS = [MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 4 * DAY, 7 * DAY, 14 * DAY, 28 * DAY, 91 * DAY];
const COUNT_STEPS = [1, 2, 5, 10, 20, 50];
const seconds = (iso) => new Date(iso).getTime() / 1000;

function axis(values, size, steps) {
  return {
    ...(steps ? { incrs: steps } : {}),
    stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1, size: 4 },
    font: "11px system-ui, sans-serif", size, values,
  };
}

function swatch(kind, text) {
  return h("li", {}, h("span", { class: `swatch ${kind}` }), text);
}

/** Draws into `container`, again whenever its width changes. Below it is the text of the point under the pointer. */
function draw(container, label, key, options, data, readout) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  const line = h("p", { class: "readout" }, label);
  container.observer?.disconnect();
  container.chart?.destroy();
  container.replaceChildren(h("ul", { class: "key" }, key), box, line);
  const chart = new window.uPlot({
    width: Math.max(200, box.clientWidth), height: HEIGHT, legend: { show: false },
    tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    hooks: { setCursor: [(u) => { line.textContent = u.cursor.idx === null || u.cursor.idx === undefined ? label : readout(u.cursor.idx); }] },
    ...options,
  }, data, box);
  container.chart = chart;
  container.observer = new ResizeObserver(() => {
    if (box.clientWidth && box.clientWidth !== chart.width) chart.setSize({ width: box.clientWidth, height: HEIGHT });
  });
  container.observer.observe(box);
}

const DATES = (u, splits) => splits.map((at) => {
  const text = new Date(at * 1000).toISOString();
  return text.slice(11, 16) === "00:00" ? text.slice(5, 10) : text.slice(11, 16);
});

export function renderLag(container, { publishes, sla, now }) {
  const shown = publishes.filter((p) => p.lag_s !== null);
  if (!shown.length) {
    container.replaceChildren(h("p", { class: "muted" }, "The first publish will be the first point here."));
    return;
  }
  const minutes = shown.map((p) => p.lag_s / 60);
  const over = minutes.map((m) => (m > sla ? m : null));
  const missed = over.filter((m) => m !== null).length;
  const middle = [...minutes].sort((a, b) => a - b)[Math.floor(minutes.length / 2)];
  const label = `Last ${shown.length}: median ${duration(middle * 60)}, longest ${duration(Math.max(...minutes) * 60)}, ${missed} over ${sla} min.`;
  const limit = Math.max(sla * 1.15, ...minutes.map((m) => m * 1.05));
  draw(container, label,
    [swatch("lag", "arrival to swap, minutes"), swatch("sla", `freshness SLA, ${sla} min`), missed ? swatch("over", "over the SLA") : null].filter(Boolean),
    {
      scales: { y: { range: [0, limit] } },
      axes: [axis(DATES, 28, TIME_STEPS), axis((u, splits) => splits.map((m) => `${m}`), 40)],
      series: [
        {},
        { stroke: colour("new"), width: 1.5, points: { show: true, size: 5, fill: colour("surface") } },
        { stroke: colour("late"), width: 1.5, dash: [6, 4], points: { show: false } },
        { stroke: colour("late"), width: 0, paths: () => null, points: { show: true, size: 9, fill: colour("late") } },
      ],
    },
    [times(shown), around(shown, minutes), times(shown).map(() => sla), around(shown, over)],
    (i) => {
      const p = shown[shown.length > 1 ? i : 0];
      return `Snapshot ${p.snapshot_id}, arrived ${moment(p.arrived_at, now)}: readers saw it ${duration(p.lag_s)} later.`;
    });
}

/** A single point gets an hour on both sides, so that the SLA is a line. */
function times(shown) {
  const at = shown.map((p) => seconds(p.arrived_at));
  return at.length > 1 ? at : [at[0] - HOUR, at[0], at[0] + HOUR];
}

const around = (shown, values) => (shown.length > 1 ? values : [null, values[0], null]);

const MOST_TIMES_USUAL = 10;

/** Where the rows chart ends: bars that are far taller than the usual one, such as the first publish, are cut off. */
function heightOf(tops) {
  const usual = [...tops].sort((a, b) => a - b)[Math.floor((tops.length - 1) / 2)];
  const highest = Math.max(...tops, 1);
  const shown = Math.max(...tops.filter((top) => top <= usual * MOST_TIMES_USUAL), 1);
  return usual > 0 && highest > shown ? { limit: shown * 1.25, cut: tops.filter((top) => top > shown).length, highest } : { limit: highest * 1.08, cut: 0, highest };
}

/** A snapshot id for an axis: of a long one, its end. */
const shortId = (id) => (id.length > 8 ? `…${id.slice(-6)}` : id);

export function renderRows(container, publishes) {
  if (!publishes.length) {
    container.replaceChildren(h("p", { class: "muted" }, "The rows of each snapshot are shown from the first publish on."));
    return;
  }
  const retained = publishes.map((p) => p.retained_rows);
  const changed = publishes.map((p, i) => retained[i] + (p.changed_rows ?? 0));
  const fresh = publishes.map((p, i) => changed[i] + p.new_rows);
  const bars = (name) => ({
    stroke: colour(name), fill: colour(name), width: 0, points: { show: false },
    paths: window.uPlot.paths.bars({ size: [0.7, 28] }),
  });
  const newest = publishes[publishes.length - 1];
  const { limit, cut, highest } = heightOf(fresh);
  const describe = (p) => `Snapshot ${p.snapshot_id} (generation ${p.generation}): ${count(p.new_rows)} new, ` +
    `${p.changed_rows === null ? "changed not compared" : `${count(p.changed_rows)} changed`}, ${count(p.retained_rows)} retained.`;
  draw(container, describe(newest),
    [swatch("new", "new keys"), swatch("changed", "changed values"), swatch("retained", "retained: missing in the snapshot"),
      cut ? h("li", {}, `${cut} taller ${cut === 1 ? "bar is" : "bars are"} cut off, up to ${short(highest)} rows`) : null].filter(Boolean),
    {
      scales: { x: { time: false, range: () => [-0.6, publishes.length - 0.4] }, y: { range: () => [0, limit] } },
      axes: [axis((u, splits) => splits.map((i) => (Number.isInteger(i) ? shortId(publishes[i]?.snapshot_id ?? "") : "")), 28, COUNT_STEPS), axis((u, splits) => splits.map(short), 52)],
      series: [{}, bars("new"), bars("changed"), bars("retained")],
    },
    [publishes.map((_, i) => i), fresh, changed, retained],
    (i) => describe(publishes[i]));
}
