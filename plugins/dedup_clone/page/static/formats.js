// Formats numbers, times and durations. Times are in UTC, on hover in the reader's time zone; durations look as in
// alerts (freshness/incident.py).

import { h } from "./dom.js";

const COUNT = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const LOCAL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

export const count = (n) => (n === null || n === undefined ? "–" : COUNT.format(n));
export const short = (n) => (n === null || n === undefined ? "–" : SHORT.format(n));

/** US dollars: two decimal places from one cent on, four below. */
export function usd(amount) {
  if (amount === null || amount === undefined) return "–";
  if (amount === 0) return "$0";
  if (amount < 0.00005) return "under $0.0001";
  const digits = amount >= 0.01 ? 2 : 4;
  return `$${amount.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** A duration such as `45 s`, `12 min`, `3 h 05 min` or `2 d 4 h`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 120) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export const day = (iso) => new Date(iso).toISOString().slice(0, 10);
export const clock = (iso) => new Date(iso).toISOString().slice(11, 16);

/** `12:04` today, `2026-11-20 12:04` on another day. */
export function moment(iso, now) {
  if (!iso) return "–";
  return day(iso) === day(now) ? clock(iso) : `${day(iso)} ${clock(iso)}`;
}

/** The time in the reader's zone, for what only a text can show, such as a title. */
export const local = (iso) => LOCAL.format(new Date(iso));

/** `text` as an element that shows, on hover, its time in the reader's zone. */
export const timeAs = (iso, text) => h("time", { datetime: iso, title: local(iso) }, text);

export const time = (iso, now) => (iso ? timeAs(iso, moment(iso, now)) : "–");

const TIME = /(\d{4}-\d{2}-\d{2} \d{2}:\d{2}(?::\d{2})? UTC)/;

/** The text as nodes: each time in it, such as `2026-11-20 12:04:00 UTC`, is an element of `timeAs`. */
export const withTimes = (text) => text.split(TIME).map((part, place) =>
  (place % 2 ? timeAs(part.replace(" ", "T").replace(" UTC", "Z"), part) : part));

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (n >= 1000 && unit < units.length - 1) { n /= 1000; unit += 1; }
  return `${n >= 100 || unit === 0 ? Math.round(n) : n.toFixed(1)} ${units[unit]}`;
}
