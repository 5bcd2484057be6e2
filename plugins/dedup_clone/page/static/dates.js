// The dates of a delivery: a list by month to tick, and the text of the same dates and ranges, which can be edited too.

import { h } from "./dom.js";
import { count } from "./formats.js";

const DAY_MS = 24 * 60 * 60 * 1000;
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

/** The text of these dates, as ranges. */
export function formatDates(dates) {
  const ranges = [];
  for (const date of [...dates].sort()) {
    const last = ranges.at(-1);
    if (last && Date.parse(date) - Date.parse(last[1]) === DAY_MS) last[1] = date;
    else ranges.push([date, date]);
  }
  return ranges.map(([first, last]) => (first === last ? first : `${first}..${last}`)).join(", ");
}

/** The state of this date in the live table. `live`: the partitions by date; `oldest`: the first retained date. */
function describe(date, live, oldest) {
  if (date < oldest) return "older than the retention";
  const entry = live.get(date);
  return entry ? `live: ${count(entry[1])} rows${entry[2] ? `, ${count(entry[2])} retained` : ""}` : "not in the table";
}

/**
 * A field for dates. `offer(text)`: offers the dates of a delivery, given as ranges; empty text if they are unknown.
 * `values()`: the entered dates and ranges. `partitions`: of the live table; `retention`: in days; `today`: YYYY-MM-DD.
 */
export function datesField({ partitions, retention, today }) {
  const live = new Map(partitions.map((entry) => [entry[0], entry]));
  const oldest = iso(Date.parse(today) - (retention - 1) * DAY_MS);
  const input = h("input", { type: "text", autocomplete: "off", placeholder: "all of them", oninput: () => { validate(); tick(); } });
  const list = h("div", {});
  let offered = [];
  let boxes = [];
  let months = [];

  const entered = () => { try { return new Set(parseDates(input.value)); } catch { return new Set(); } };
  const validate = () => {
    let problem = "";
    try {
      const dates = parseDates(input.value);
      const missing = offered.length ? dates.filter((date) => !offered.includes(date)) : [];
      const old = dates.filter((date) => date < oldest);
      if (missing.length) problem = `This delivery has no ${formatDates(missing)}: it has ${formatDates(offered)}.`;
      else if (old.length) problem = `${formatDates(old)} is older than the retention of ${retention} days.`;
    } catch (error) {
      problem = error.message;
    }
    input.setCustomValidity(problem);
  };
  const tick = () => {
    const dates = entered();
    for (const box of boxes) box.checked = dates.has(box.value);
    for (const { all, days } of months) {
      const ticked = days.filter((box) => box.checked).length;
      all.checked = ticked > 0 && ticked === days.length;
      all.indeterminate = ticked > 0 && ticked < days.length;
    }
  };
  const write = () => {
    input.value = formatDates(boxes.filter((box) => box.checked).map((box) => box.value));
    validate();
    tick();
  };
  const day = (date) => {
    const box = h("input", { type: "checkbox", value: date, disabled: date < oldest, onchange: write });
    boxes.push(box);
    return h("label", { class: "option day-option" }, box, date, h("span", { class: "muted" }, ` ${describe(date, live, oldest)}`));
  };
  const month = (name) => {
    const rows = offered.filter((date) => date.startsWith(name)).map(day);
    const days = boxes.filter((box) => box.value.startsWith(name) && !box.disabled);
    const all = h("input", { type: "checkbox", value: name, disabled: !days.length, onchange: () => { for (const box of days) box.checked = all.checked; write(); } });
    months.push({ all, days });
    return h("div", {}, h("label", { class: "option" }, all, `${name}: ${rows.length} ${rows.length === 1 ? "date" : "dates"}`),
      h("details", {}, h("summary", {}, `Days of ${name}`), rows));
  };
  const offer = (text) => {
    let problem = "The dates of this delivery are not known here: if its feed has no date folders, only the whole snapshot can be replayed.";
    // Too many dates to list are not offered, but can be entered.
    try { offered = parseDates(text); } catch (error) { [offered, problem] = [[], error.message]; }
    [boxes, months] = [[], []];
    const names = [...new Set(offered.map((date) => date.slice(0, 7)))].reverse();
    list.replaceChildren(offered.length
      ? h("details", {}, h("summary", {}, `Choose from the ${offered.length} dates of this delivery`), h("div", { class: "months" }, names.map(month)))
      : h("p", { class: "muted" }, problem));
    validate();
    tick();
  };
  return { input, list, offer, values: () => input.value.split(",").map((text) => text.trim()).filter((text) => text) };
}
