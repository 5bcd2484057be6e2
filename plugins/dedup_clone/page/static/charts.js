// Two charts of the last publishes: the lag of each, and the rows that each snapshot changed.

import { h } from "./dom.js";
import { colour } from "./theme.js";
import { count, duration, local, moment, short } from "./formats.js";

const HEIGHT = 220;
const COUNT_STEPS = [1, 2, 5, 10, 20, 50];

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

/** Draws a chart into `container`, and again whenever its width changes. `key`: the items of the legend. Below the chart is
 * `readout(i)`, the text of the point under the pointer, or `label` without one. */
function draw(container, label, key, options, data, readout) {
  const box = h("div", { class: "chart", role: "img", "aria-label": label });
  const line = h("p", { class: "readout" }, label);
  container.observer?.disconnect();
  container.chart?.destroy();
  container.replaceChildren(h("ul", { class: "key" }, key), box, line);
  const chart = new window.uPlot({
    width: Math.max(200, box.clientWidth), height: HEIGHT, legend: { show: false },
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

const MAX_TIMES_TYPICAL = 10;

/** The upper end of the y axis, with the number of values above it and the highest. `tops`: the highest value of each
 * publish. Values far above the middle one, such as that of the first publish, are cut off. Zeros, those of snapshots
 * without a change, do not count. */
function axisLimit(tops) {
  const drawn = tops.filter((top) => top > 0).sort((a, b) => a - b);
  if (!drawn.length) return { limit: 1, cut: 0, highest: 0 };
  const typical = drawn[Math.floor((drawn.length - 1) / 2)]; // of two middle values the lower
  const highest = drawn.at(-1);
  const shown = drawn.findLast((top) => top <= typical * MAX_TIMES_TYPICAL);
  return highest > shown ? { limit: shown * 1.25, cut: drawn.filter((top) => top > shown).length, highest } : { limit: highest * 1.08, cut: 0, highest };
}

/** A snapshot id for an axis label; a long id is shortened to its last digits. */
const shortId = (id) => (id.length > 8 ? `…${id.slice(-6)}` : id);

/** The axis below a chart: the snapshot id of each publish, from left to right; of other runs their kind. */
const snapshotAxis = (publishes) => ({
  scale: { time: false, range: () => [-0.6, publishes.length - 0.4] },
  axis: axis((u, splits) => splits.map((i) => (publishes[i] ? axisLabel(publishes[i]) : "")), 28, COUNT_STEPS),
});

const axisLabel = ({ kind, snapshot_id: id }) => (kind === "publish" ? shortId(id) : kind);

export function renderLag(container, { publishes, sla, now }) {
  const shown = publishes.filter((p) => p.lag_s !== null);
  if (!shown.length) {
    container.replaceChildren();
    return;
  }
  const minutes = shown.map((p) => p.lag_s / 60);
  const over = minutes.map((m) => (m > sla ? m : null));
  const missed = over.filter((m) => m !== null).length;
  const label = `Last ${shown.length}: median ${duration(median(minutes) * 60)}, longest ${duration(Math.max(...minutes) * 60)}, ${missed} over ${sla} min.`;
  const { limit: tallest, cut, highest } = axisLimit(minutes);
  const limit = Math.max(sla * 1.15, tallest);
  const beyond = cut && highest > limit ? `cut off at ${duration(limit * 60)}, up to ${duration(highest * 60)}` : null;
  const x = snapshotAxis(shown);
  draw(container, label,
    [swatch("lag", "arrival to swap, minutes"), swatch("sla", `freshness SLA, ${sla} min`), missed ? swatch("over", "over the SLA") : null,
      beyond ? h("li", {}, beyond) : null].filter(Boolean),
    {
      scales: { x: x.scale, y: { range: () => [0, limit] } },
      axes: [x.axis, axis((u, splits) => splits.map((m) => `${m}`), 40)],
      series: [
        {},
        { stroke: colour("new"), width: 1.5, points: { show: true, size: 5, fill: colour("surface") } },
        { stroke: colour("late"), width: 1.5, dash: [6, 4], points: { show: false } },
        { stroke: colour("late"), width: 0, paths: () => null, points: { show: true, size: 9, fill: colour("late") } },
      ],
    },
    [positions(shown), padded(shown, clipped(minutes, limit)), positions(shown).map(() => sla), padded(shown, clipped(over, limit))],
    (i) => {
      const { generation, swapped_at: at, lag_s: lag } = shown[shown.length > 1 ? i : 0];
      return `Generation ${generation}: readers saw its snapshot at ${moment(at, now)} UTC (${local(at)}), ${duration(lag)} after it arrived.`;
    });
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return (sorted[Math.floor((sorted.length - 1) / 2)] + sorted[Math.floor(sorted.length / 2)]) / 2;
}

/** Values above `limit` are drawn at the upper edge. */
const clipped = (values, limit) => values.map((value) => (value === null ? null : Math.min(value, limit)));

/** The x positions. A single point gets a neighbour on each side, so that the line of the SLA has a length. */
const positions = (shown) => (shown.length > 1 ? shown.map((_, i) => i) : [-0.5, 0, 0.5]);
const padded = (shown, values) => (shown.length > 1 ? values : [null, values[0], null]);

export function renderRows(container, publishes) {
  if (!publishes.length) {
    container.replaceChildren();
    return;
  }
  // Stacked bars: each is drawn from 0 to its top, the tallest first.
  const retainedTops = publishes.map((p) => p.retained_rows);
  const changedTops = publishes.map((p, i) => retainedTops[i] + (p.changed_rows ?? 0));
  const newTops = publishes.map((p, i) => changedTops[i] + p.new_rows);
  const bars = (name) => ({
    stroke: colour(name), fill: colour(name), width: 0, points: { show: false },
    paths: window.uPlot.paths.bars({ size: [0.7, 28] }),
  });
  const newest = publishes[publishes.length - 1];
  const { limit, cut, highest } = axisLimit(newTops);
  const x = snapshotAxis(publishes);
  const describe = (p) => `${p.kind === "publish" ? "Snapshot" : `A ${p.kind}, snapshot`} ${p.snapshot_id} (generation ${p.generation}): ` +
    `${count(p.new_rows)} new, ${p.changed_rows === null ? "changed not compared" : `${count(p.changed_rows)} changed`}, ` +
    `${count(p.retained_rows)} retained${p.dropped_rows ? `, ${count(p.dropped_rows)} dropped` : ""}.`;
  draw(container, describe(newest),
    [swatch("new", "new keys"), swatch("changed", "changed values"), swatch("retained", "retained: missing in the snapshot"),
      cut ? h("li", {}, `${cut} taller ${cut === 1 ? "bar is" : "bars are"} cut off, up to ${short(highest)} rows`) : null].filter(Boolean),
    {
      scales: { x: x.scale, y: { range: () => [0, limit] } },
      axes: [x.axis, axis((u, splits) => splits.map(short), 52)],
      series: [{}, bars("new"), bars("changed"), bars("retained")],
    },
    [publishes.map((_, i) => i), newTops, changedTops, retainedTops],
    (i) => describe(publishes[i]));
}
