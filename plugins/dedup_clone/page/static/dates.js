// The dates of a delivery: a list by month to tick, and the text of the same dates and ranges, which can be edited too.

import { h } from "./dom.js";
import { count } from "./formats.js";

const DAY_MS = 24 * 60 * 60 * 1000;
const RANGES_NAMED = 10;
const UNKNOWN = "The dates of this delivery are not known here: if its feed has no date folders, only the whole snapshot can be replayed.";
const NOT_LISTED = "The dates of this delivery are not listed here, because it and newer deliveries have too many dates with gaps. " +
  "Enter the dates to replay: the run refuses a date that the delivery lacks.";
const RANGE = /^(\d{4}-\d{2}-\d{2})(?:\.\.(\d{4}-\d{2}-\d{2}))?$/;
const iso = (time) => new Date(time).toISOString().slice(0, 10);

/** All dates of `2026-01-01..2026-01-03, 2026-01-05`. Throws an Error that names what is no date, no range of dates, or too
 * long a range. */
export function parseDates(text) {
  const found = new Set();
  for (const part of text.split(",").map((one) => one.trim()).filter((one) => one)) {
    const [, first, last = first] = RANGE.exec(part) ?? [];
    const [begin, end] = [Date.parse(`${first}T00:00:00Z`), Date.parse(`${last}T00:00:00Z`)];
    if (!first || Number.isNaN(begin) || Number.isNaN(end) || iso(begin) !== first || iso(end) !== last) {
      throw new Error(`${part} is no date: write YYYY-MM-DD, or a range YYYY-MM-DD..YYYY-MM-DD.`);
    }
    if (begin > end) throw new Error(`${part} is no range of dates: write the earlier one first.`);
    if (end - begin >= 10000 * DAY_MS) throw new Error(`${part} has more than 10,000 dates.`);
    for (let at = begin; at <= end; at += DAY_MS) found.add(iso(at));
  }
  return [...found].sort();
}

/** The text of these dates, as ranges; with `most`, of at most so many ranges. */
export function formatDates(dates, most = Infinity) {
  const ranges = [];
  for (const date of [...dates].sort()) {
    const last = ranges.at(-1);
    if (last && Date.parse(date) - Date.parse(last[1]) === DAY_MS) last[1] = date;
    else ranges.push([date, date]);
  }
  const texts = ranges.slice(0, most).map(([first, last]) => (first === last ? first : `${first}..${last}`));
  return `${texts.join(", ")}${ranges.length > most ? ` and ${ranges.length - most} more ranges` : ""}`;
}

/** The state of this date in the live table. `live`: the partitions by date; `oldest`: the first retained date. */
function describe(date, live, oldest) {
  if (date < oldest) return "older than the retention";
  const entry = live.get(date);
  return entry ? `live: ${count(entry[1])} rows${entry[2] ? `, ${count(entry[2])} retained` : ""}` : "not in the table";
}

/**
 * A field for dates. `offer(text)`: offers the dates of a delivery, given as ranges; empty text if they are unknown, null
 * if they are too many to be listed. `enter(dates)`, `values()`: replaces and returns the entered dates and ranges.
 * `partitions`: of the live table; `retention`: in days; `today`: YYYY-MM-DD.
 */
export function datesField({ partitions, retention, today }) {
  const live = new Map(partitions.map((entry) => [entry[0], entry]));
  const oldest = iso(Date.parse(today) - (retention - 1) * DAY_MS);
  const input = h("input", { type: "text", autocomplete: "off", placeholder: "all of them", oninput: () => readText() });
  const list = h("div", {});
  let offered = new Set();
  let entered = new Set(); // empty while the text is no list of dates
  let months = [];

  const readText = () => {
    let problem = "";
    entered = new Set();
    try {
      const dates = parseDates(input.value);
      entered = new Set(dates);
      const missing = offered.size ? dates.filter((date) => !offered.has(date)) : [];
      const old = dates.filter((date) => date < oldest);
      if (missing.length) problem = `This delivery has no ${formatDates(missing, RANGES_NAMED)}: it has ${formatDates(offered, RANGES_NAMED)}.`;
      else if (old.length) problem = `${formatDates(old, RANGES_NAMED)} is older than the retention of ${retention} days.`;
    } catch (error) {
      problem = error.message;
    }
    input.setCustomValidity(problem);
    for (const { all, replayable, boxes } of months) {
      for (const box of boxes) box.checked = entered.has(box.value);
      const ticked = replayable.filter((date) => entered.has(date)).length;
      all.checked = ticked > 0 && ticked === replayable.length;
      all.indeterminate = ticked > 0 && ticked < replayable.length;
    }
  };
  const select = (dates, selected) => {
    for (const date of dates) entered[selected ? "add" : "delete"](date);
    input.value = formatDates([...entered].filter((date) => offered.has(date)));
    readText();
  };
  const day = (date) => {
    const box = h("input", {
      type: "checkbox", value: date, disabled: date < oldest, onchange: () => select([date], box.checked),
    });
    box.checked = entered.has(date);
    return [box, h("label", { class: "option day-option" }, box, date, h("span", { class: "muted" }, ` ${describe(date, live, oldest)}`))];
  };
  const month = ([name, dates]) => {
    const replayable = dates.filter((date) => date >= oldest);
    const all = h("input", { type: "checkbox", value: name, disabled: !replayable.length, onchange: () => select(replayable, all.checked) });
    const shown = { all, replayable, boxes: [] };
    months.push(shown);
    // The days of a month are made when somebody opens it: a delivery can have thousands.
    const open = () => {
      if (shown.boxes.length) return;
      const days = dates.map(day);
      shown.boxes = days.map(([box]) => box);
      details.append(...days.map(([, label]) => label));
    };
    const details = h("details", {}, h("summary", { onclick: open }, `Days of ${name}`));
    return h("div", {}, h("label", { class: "option" }, all, `${name}: ${dates.length} ${dates.length === 1 ? "date" : "dates"}`), details);
  };
  const offer = (text) => {
    let problem = text === null ? NOT_LISTED : UNKNOWN;
    // Too many dates to list are not offered, but can be entered.
    try { offered = new Set(parseDates(text ?? "")); } catch (error) { [offered, problem] = [new Set(), error.message]; }
    months = [];
    const byMonth = new Map();
    for (const date of offered) {
      const name = date.slice(0, 7);
      if (!byMonth.has(name)) byMonth.set(name, []);
      byMonth.get(name).push(date);
    }
    list.replaceChildren(offered.size
      ? h("details", {}, h("summary", {}, `Choose from the ${offered.size} dates of this delivery`), h("div", { class: "months" }, [...byMonth].reverse().map(month)))
      : h("p", { class: "muted" }, problem));
    readText();
  };
  const enter = (dates) => {
    input.value = dates.join(", ");
    readText();
  };
  return { input, list, offer, enter, values: () => input.value.split(",").map((text) => text.trim()).filter((text) => text) };
}
