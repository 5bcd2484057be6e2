// The page: selects a feed, reads its JSON view every 15 seconds, and renders the parts whose values changed.

import { openApprovals, read } from "./airflow.js";
import { renderCalendar } from "./calendar.js";
import { renderChecks } from "./checks.js";
import { renderCost } from "./cost.js";
import { renderLag, renderRows } from "./charts.js";
import { h } from "./dom.js";
import { renderReplay, renderRollback } from "./forms.js";
import { renderHero } from "./hero.js";
import { renderIncidents } from "./incidents.js";
import { renderGenerations, renderPublishes, renderRefused } from "./lists.js";
import { renderPhases } from "./phases.js";
import { followTheme } from "./theme.js";
import { renderToday } from "./today.js";
import { clock } from "./formats.js";

const REFRESH_MS = 15000;
const DAG_SUFFIXES = ["_watch", "_publish", "_rollback", "_bootstrap", "_backfill", "_erase", "_rebuild", "_retire", "_content_audit"];
const byId = (id) => document.getElementById(id);
const rendered = new Map();
let timer = null;
let latestRefresh = 0;

/** The parts of the page. Each: its element's id, a function that selects its values from the view, its renderer. */
const PARTS = [
  ["incidents", (v) => ({
    stopped: v.stopped, approvals: v.approvals, incidents: v.freshness.incidents, runbook: v.freshness.runbook, may: v.may_replay, now: `${v.now.slice(0, 16)}Z`,
  }), renderIncidents],
  ["lag", (v) => ({ publishes: v.publishes, sla: v.sla_minutes, now: v.now.slice(0, 10) }), renderLag],
  ["phases", (v) => v.publishes.filter((p) => p.lag_s !== null).at(-1) ?? null, renderPhases],
  ["rows", (v) => v.publishes, renderRows],
  ["today", (v) => ({ ...v.today, now: v.now.slice(0, 16) }), renderToday],
  ["cost", (v) => ({ live: v.live, costs: v.costs, projection: v.projection }), renderCost],
  ["checks", (v) => v.checks, renderChecks],
  ["partitions", (v) => ({ dates: v.dates, retention: v.retention_days, audit: v.audit, now: v.now.slice(0, 10) }), renderCalendar],
  ["publishes", (v) => ({ publishes: v.publishes, sla: v.sla_minutes, now: v.now.slice(0, 10) }), renderPublishes],
  ["generations", (v) => ({ generations: v.generations, now: v.now.slice(0, 10) }), renderGenerations],
  ["refused", (v) => ({ refused: v.refused, failures: v.failures, excluded: v.excluded, now: v.now.slice(0, 10) }), renderRefused],
  ["replay", (v) => ({ feed: v.feed, replayable: v.replayable, choices: v.choices, engine: v.engine, may: v.may_replay, now: v.now.slice(0, 10), partitions: v.dates, retention: v.retention_days }), renderReplay],
  ["rollback", (v) => ({ feed: v.feed, generations: v.generations, choices: v.choices, may: v.may_roll_back, now: v.now.slice(0, 10) }), renderRollback],
];

function renderPart([id, choose, render], view) {
  const value = choose(view);
  if (value?.live) value.live = { ...value.live, age_s: null };
  const text = JSON.stringify(value);
  // A form that somebody is filling in (`busy`) would lose its input.
  if (rendered.get(id) === text || (rendered.has(id) && byId(id).dataset.busy)) return;
  rendered.set(id, text);
  render(byId(id), value);
}

function renderFeeds(feeds, chosen) {
  const links = feeds.map((feed) =>
    h("a", { href: `#${feed.feed}`, "aria-current": feed.feed === chosen ? "page" : null, title: feed.headline },
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

function showFeed(shown) {
  byId("hero").hidden = byId("cards").hidden = !shown;
}

/** The feed that the URL names after `#` or by its parameter `dag`; without these, the feed in the worst state. */
function wantedFeed(feeds) {
  const named = decodeURIComponent(window.location.hash.slice(1));
  const dag = new URLSearchParams(window.location.search).get("dag");
  if (feeds.some((feed) => feed.feed === named)) return { feed: named };
  if (dag) {
    const owner = DAG_SUFFIXES.filter((s) => dag.endsWith(s)).map((s) => dag.slice(0, -s.length))
      .find((name) => feeds.some((feed) => feed.feed === name));
    return owner ? { feed: owner } : { none: `The DAG ${dag} belongs to no feed. Choose a feed above.` };
  }
  const order = ["stopped", "late", "unknown", "at risk", "fresh", "empty"];
  const worst = [...feeds].sort((a, b) => order.indexOf(a.status) - order.indexOf(b.status))[0];
  return worst ? { feed: worst.feed } : {
    none: "No feed is known yet. A feed appears here as soon as its first snapshot has arrived.",
  };
}

async function refresh() {
  const thisRefresh = ++latestRefresh;
  clearTimeout(timer);
  try {
    const list = await read("api/feeds");
    const wanted = wantedFeed(list.feeds);
    if (thisRefresh !== latestRefresh) return;
    renderFeeds(list.feeds, wanted.feed);
    byId("as-of").textContent = `as of ${clock(list.now)} UTC`;
    if (wanted.none) {
      showFeed(false);
      showNotice(wanted.none);
    } else {
      const view = await read(`api/feeds/${encodeURIComponent(wanted.feed)}`);
      const approvals = await openApprovals(view.feed, (dag) => DAG_SUFFIXES.some((suffix) => dag === `${view.feed}${suffix}`));
      if (thisRefresh !== latestRefresh) return;
      show({ ...view, approvals });
    }
  } catch (error) {
    if (thisRefresh === latestRefresh) showNotice(error.message);
  } finally {
    if (thisRefresh === latestRefresh) timer = setTimeout(refresh, REFRESH_MS);
  }
}

let feedShown = null;
let lastView = null;

function show(view) {
  if (feedShown !== view.feed) {
    rendered.clear();
    for (const [id] of PARTS) delete byId(id).dataset.busy;
  }
  feedShown = view.feed;
  lastView = view;
  showNotice("");
  showFeed(true);
  renderHero(byId("hero"), view);
  for (const part of PARTS) renderPart(part, view);
}

followTheme(() => {
  for (const id of ["lag", "rows"]) rendered.delete(id);
  if (lastView) show(lastView);
});
window.addEventListener("hashchange", refresh);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
