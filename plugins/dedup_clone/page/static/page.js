// The page: selects a feed, reads the feed's JSON values every 15 seconds, and renders the parts whose values changed.

import { openApprovals, read, taskAtWork } from "./airflow.js";
import { renderCalendar } from "./calendar.js";
import { renderChecks } from "./checks.js";
import { renderCost } from "./cost.js";
import { renderLag, renderRows } from "./charts.js";
import { h } from "./dom.js";
import { renderReplay, renderRollback } from "./forms.js";
import { renderHero } from "./hero.js";
import { renderIncidents } from "./incidents.js";
import { renderDeliveries, renderPublishes } from "./lists.js";
import { renderPhases } from "./phases.js";
import { followTheme } from "./theme.js";
import { renderToday } from "./today.js";
import { time } from "./formats.js";

const REFRESH_MS = 15000;
const DAG_SUFFIXES = ["_watch", "_publish", "_rollback"];
const SHARED_DAG_PREFIX = "dedup_clone_"; // of the DAGs that serve all feeds
const byId = (id) => document.getElementById(id);
const rendered = new Map();
let timer = null;
let latestRefresh = 0;

/** The parts of the page, each as the id of its element, a function that selects its values from the view (the JSON of
 * the feed, see feed_view.py), and its renderer. All but the first need the feed's index. */
const PARTS = [
  ["incidents", (v) => ({
    stopped: v.stopped, held: v.held ?? [], approvals: v.approvals, incidents: v.freshness.incidents, readersSee: v.freshness.readers_see, runbook: v.freshness.runbook, mayStart: v.may_replay, now: `${v.now.slice(0, 16)}Z`,
  }), renderIncidents],
  ["lag", (v) => ({ publishes: v.publishes, sla: v.sla_minutes, now: v.now.slice(0, 10) }), renderLag],
  ["phases", (v) => v.publishes.filter((p) => p.lag_s !== null).at(-1) ?? null, renderPhases],
  ["rows", (v) => v.publishes, renderRows],
  ["today", (v) => ({ expected: v.expected, zone: v.zone, deliveries: v.deliveries, now: `${v.now.slice(0, 16)}Z` }), renderToday],
  ["cost", (v) => v.live, renderCost],
  ["checks", (v) => v.checks, renderChecks],
  ["partitions", (v) => ({ dates: v.dates, audit: v.audit, now: v.now.slice(0, 10) }), renderCalendar],
  ["publishes", (v) => ({ publishes: v.publishes, sla: v.sla_minutes, now: v.now.slice(0, 10) }), renderPublishes],
  ["deliveries", (v) => ({ deliveries: v.deliveries, now: v.now.slice(0, 10) }), renderDeliveries],
  ["replay", (v) => ({ feed: v.feed, deliveries: v.deliveries, acceptable: v.acceptable_checks, mayStart: v.may_replay, now: v.now.slice(0, 10) }), renderReplay],
  ["rollback", (v) => ({ feed: v.feed, publishes: v.publishes, live: v.live?.generation, mayStart: v.may_roll_back, now: v.now.slice(0, 10) }), renderRollback],
];

function renderPart([id, valuesOf, render], view) {
  const value = valuesOf(view);
  const text = JSON.stringify(value);
  // A form that somebody is filling in (`busy`) would lose its input.
  if (rendered.get(id) === text || (rendered.has(id) && byId(id).dataset.busy)) return;
  rendered.set(id, text);
  render(byId(id), value);
}

function renderFeeds(feeds, selected) {
  const links = feeds.map((feed) =>
    h("a", { href: `#${feed.feed}`, "aria-current": feed.feed === selected ? "page" : null, title: feed.headline },
      h("span", { class: `dot ${feed.status.replaceAll(" ", "-")}`, "aria-hidden": "true" }),
      feed.feed, h("span", { class: "sr-only" }, `, ${feed.status}`)));
  const focused = byId("feeds").contains(document.activeElement) ? document.activeElement.hash : null;
  byId("feeds").replaceChildren(...links);
  if (focused) links.find((link) => link.hash === focused)?.focus();
}

function showNotice(text) {
  byId("notice").hidden = !text;
  if (byId("notice").textContent !== text) byId("notice").textContent = text;
}

function feedInUrl() {
  try {
    return decodeURIComponent(window.location.hash.slice(1));
  } catch {
    return "";
  }
}

/** The feed that the URL names after `#` or by its parameter `dag`. If it names none of `feeds`: the feed in the worst state,
 * or the shown one while somebody fills in its forms. Returns `{ feed }`, or `{ none }`, a sentence that says why no feed is
 * shown. */
function feedToShow(feeds) {
  const named = feedInUrl();
  const dag = new URLSearchParams(window.location.search).get("dag");
  if (feeds.some((feed) => feed.feed === named)) return { feed: named };
  if (dag) {
    const owner = DAG_SUFFIXES.filter((s) => dag.endsWith(s)).map((s) => dag.slice(0, -s.length))
      .find((name) => feeds.some((feed) => feed.feed === name));
    return owner ? { feed: owner } : { none: `The DAG ${dag} belongs to no feed. Choose a feed above.` };
  }
  const isFilledIn = PARTS.some(([id]) => byId(id).dataset.busy);
  if (isFilledIn && feeds.some((feed) => feed.feed === lastView?.feed)) return { feed: lastView.feed };
  const order = ["stopped", "late", "unknown", "at risk", "rolled back", "fresh", "empty"];
  const worst = [...feeds].sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status))[0];
  return worst ? { feed: worst.feed } : {
    none: "There is no feed that you may see. A feed appears as soon as the DAG freshness_watchdog has checked it, to whoever may read its DAG FEED_publish.",
  };
}

async function refresh() {
  const thisRefresh = ++latestRefresh;
  clearTimeout(timer);
  let selection = { feed: window.location.hash ? feedInUrl() : lastView?.feed };
  try {
    const list = await read("api/feeds");
    if (thisRefresh !== latestRefresh) return;
    selection = feedToShow(list.feeds);
    renderFeeds(list.feeds, selection.feed);
    if (selection.none) {
      showAsOf(list.now);
      hideFeed();
      showNotice(selection.none);
    } else {
      const { feed } = selection;
      const [view, approvals] = await Promise.all([
        read(`api/feeds/${encodeURIComponent(feed)}`),
        openApprovals(feed, (dag) => dag.startsWith(SHARED_DAG_PREFIX) || DAG_SUFFIXES.some((s) => dag === `${feed}${s}`)),
      ]);
      const { running } = view;
      const task = running && await taskAtWork(running.dag_id, running.run_id);
      if (thisRefresh !== latestRefresh) return;
      const known = approvals ?? (lastView?.feed === feed ? lastView.approvals : []); // those of the last answer
      show({ ...view, approvals: known, running: running && { ...running, task } });
    }
  } catch (error) {
    if (thisRefresh !== latestRefresh) return;
    // The shown values stay after a failure that may pass, but not those of another feed, or that the server now refuses.
    if (lastView?.feed !== selection.feed || (error.status >= 400 && error.status < 500)) hideFeed();
    showNotice(error.message);
  } finally {
    if (thisRefresh === latestRefresh) timer = setTimeout(refresh, REFRESH_MS);
  }
}

let lastView = null; // what is shown; null while no feed is

function hideFeed() {
  lastView = null;
  byId("hero").hidden = byId("cards").hidden = true;
}

function showAsOf(now) {
  byId("as-of").replaceChildren("as of ", time(now, now), " UTC");
}

function show(view) {
  if (lastView?.feed !== view.feed) {
    rendered.clear();
    for (const [id] of PARTS) delete byId(id).dataset.busy;
  }
  lastView = view;
  showAsOf(view.now);
  showNotice("");
  renderHero(byId("hero"), view);
  for (const part of view.has_history ? PARTS : PARTS.slice(0, 1)) renderPart(part, view);
  for (const card of document.querySelectorAll("#cards section")) { // a card without content says nothing
    card.hidden = !card.querySelector("div > *") || (!view.has_history && !card.querySelector("#incidents"));
  }
  byId("hero").hidden = byId("cards").hidden = false;
}

followTheme(() => {
  for (const id of ["lag", "rows"]) rendered.delete(id);
  if (lastView) show(lastView);
});
// The form may lack the delivery that fills it, because a form that somebody fills in is not rendered again.
byId("replay").addEventListener("fill", (event) => {
  const part = PARTS.find(([id]) => id === "replay");
  if (rendered.get("replay") === JSON.stringify(part[1](lastView))) return;
  event.stopImmediatePropagation();
  delete byId("replay").dataset.busy;
  renderPart(part, lastView);
  byId("replay").dispatchEvent(new CustomEvent("fill", { detail: event.detail }));
}, { capture: true });
window.addEventListener("hashchange", refresh);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
