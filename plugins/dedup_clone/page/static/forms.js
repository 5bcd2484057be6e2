// The forms for replay and rollback. They start runs with the user's own login.

import { firstTaskResult, hasPublished, startRun } from "./airflow.js";
import { h } from "./dom.js";
import { answerLink, runLink } from "./lists.js";
import { markdown } from "./markdown.js";
import { local, moment, withTimes } from "./formats.js";

/**
 * Renders a form whose button starts a run of `dagId` with the parameters `conf()`. It then shows the result of the run's
 * first task, `task`, or that task's error, and follows the run until it has ended. `mayStart`: whether the user may start
 * the run. `label()`: the button's text. `after(parameters, runId)`: the message beside the result; null if the result is not
 * to be shown. `ends(parameters)`: whether the run ends with its first task. Returns a function that updates the button's text.
 *
 * What the page says of the last run stays when the form is rendered anew.
 */
function runForm(container, { dagId, mayStart, fields, conf, label, hint, task, after, ends }) {
  const kept = container.querySelector(".outcome");
  const outcome = kept?.dataset.dag === dagId ? kept : h("div", { class: "outcome", "data-dag": dagId },
    h("p", { class: "answer", role: "status" }), h("div", { class: "result" }));
  const [answer, shown] = outcome.children;
  const button = h("button", {}, label());
  const fieldset = h("fieldset", { disabled: !mayStart }, fields, button);
  const updateLabel = () => { button.textContent = label(); };
  const form = h("form", {
    oninput: () => { container.dataset.busy = "yes"; updateLabel(); },
    onsubmit: async (event) => {
      event.preventDefault();
      const submission = outcome.latest = {}; // only the newest one is reported on, because older runs may still wait
      const isLatest = () => outcome.latest === submission;
      const report = (kind, ...words) => {
        if (!isLatest()) return;
        answer.className = `answer ${kind}`;
        answer.replaceChildren(...words);
      };
      fieldset.disabled = true;
      report("", "Starting …");
      shown.replaceChildren();
      try {
        const parameters = conf();
        const runId = await startRun(dagId, parameters);
        const link = () => runLink(dagId, runId, runId);
        report("good", "Started: ", link());
        const { result, skipped } = await firstTaskResult(dagId, runId, task, () => {
          report("", "Waits until the run that works on the feed has ended: ", link());
          if (isLatest()) fieldset.disabled = !mayStart;
        });
        if (!isLatest()) return;
        const words = after(parameters, runId);
        if (skipped || words === null) delete container.dataset.busy;
        if (skipped) {
          report("", "Nothing was published: ", withTimes(skipped), " ", link());
          return;
        }
        if (words === null) {
          report("good", "At work: ", link());
        } else {
          shown.replaceChildren(h("div", { class: "report" }, markdown(result.text, "What it would do")));
          report("good", ...words);
        }
        if (ends(parameters)) return;
        fieldset.disabled = !mayStart;
        const isLive = await hasPublished(dagId, runId);
        if (!isLatest()) return;
        shown.replaceChildren();
        delete container.dataset.busy;
        report(isLive ? "good" : "", isLive ? "Readers see the result: " : "Nothing was published: ", link());
      } catch (error) {
        report("bad", withTimes(error.message));
      } finally {
        if (isLatest()) fieldset.disabled = !mayStart;
      }
    },
  }, fieldset);
  container.replaceChildren(
    h("p", { class: "muted" }, mayStart ? hint : `Your role may look but not start ${dagId}. Ask a user who may run DAGs.`), form, outcome);
  return updateLabel;
}

/** Lets the closed list show, on hover, the time of its selected option too. */
function withTitle(select) {
  select.addEventListener("pointerenter", () => { select.title = select.selectedOptions[0]?.title ?? ""; });
  return select;
}

/** A field with its name. `required`: a mark beside the name, or null. */
const labelled = (name, field, required = null) => h("label", {}, name, required, field);
const requiredMark = () => h("span", { class: "required" }, " (required)");
const reasonField = () => h("input", { type: "text", required: true, pattern: ".*\\S.*", title: "A reason", maxlength: 500, autocomplete: "off" });

/** Parameters without empty values: for an absent parameter, the run takes the feed's setting. */
const withoutEmpty = (conf) => Object.fromEntries(Object.entries(conf).filter(([, value]) => value !== "" && value?.length !== 0));

export function renderReplay(container, { feed, deliveries, acceptable, mayStart, now }) {
  if (!deliveries.length) {
    container.replaceChildren();
    return;
  }
  const replayable = [...deliveries].reverse();
  const publishDag = `${feed}_publish`;
  const delivery = h("select", { required: true }, replayable.map((d, number) =>
    h("option", { value: number, title: local(d.arrived_at) }, `${d.snapshot_id}, arrived ${moment(d.arrived_at, now)} UTC: ${d.state}`)));
  // A refused delivery is selected by default only if there is no other delivery.
  delivery.value = Math.max(0, replayable.findIndex((d) => d.state !== "refused"));
  const selected = () => replayable[Number(delivery.value)];
  const checks = acceptable.map((name) => h("input", { type: "checkbox", value: name }));
  const [reason, mark] = [reasonField(), requiredMark()];
  const dates = h("input", { type: "text", autocomplete: "off", placeholder: "all of them" });
  const markReason = () => { reason.required = !dryRun.checked; mark.hidden = dryRun.checked; };
  const dryRun = h("input", { type: "checkbox", onchange: markReason });
  const discard = h("input", { type: "checkbox" });
  const updateLabel = runForm(container, {
    dagId: publishDag, mayStart, task: "resolve_publish",
    label: () => (discard.checked ? `Discard snapshot ${selected().snapshot_id}` : dryRun.checked ? `Show what a replay of ${selected().snapshot_id} would do` : `Replay snapshot ${selected().snapshot_id}`),
    hint: "Publishes one delivery again, on top of what readers see now. Publishing what is live already changes nothing.",
    after: (parameters, runId) => (parameters.dry_run ? ["Nothing was changed: ", runLink(publishDag, runId, runId)]
      : parameters.accepted_checks ? ["Nothing has changed yet. ", answerLink(publishDag, runId, "approve_accepted", "Approve or reject it"), "."] : null),
    ends: (parameters) => parameters.dry_run,
    fields: [
      labelled("Snapshot", withTitle(delivery)),
      labelled("Only these dates (2026-01-01..2026-01-31, 2026-02-03)", dates),
      h("fieldset", {}, h("legend", {}, "Failed checks to accept; the run first shows what they found, and waits for an approval"),
        h("div", {}, checks.map((box) => h("label", { class: "option" }, box, box.value)))),
      labelled("Reason", reason, mark),
      h("label", { class: "option" }, dryRun, "Dry run: only show what it would do"),
      h("label", { class: "option" }, discard, "Discard: publish nothing, and report this held snapshot no more"),
    ],
    conf: () => withoutEmpty({
      snapshot_id: selected().snapshot_id,
      marker_generation: selected().marker_generation,
      dates: dates.value.split(",").map((text) => text.trim()).filter((text) => text),
      accepted_checks: checks.filter((box) => box.checked).map((box) => box.value),
      dry_run: dryRun.checked,
      discard: discard.checked || "",
      reason: reason.value.trim() || "dry run",
    }),
  });
  fillOnRequest(container, ({ snapshot, marker, checks: accepted, discard: isDiscarded }) => {
    delivery.value = replayable.findIndex((d) => d.snapshot_id === snapshot && d.marker_generation === marker);
    dates.value = "";
    dryRun.checked = false;
    discard.checked = Boolean(isDiscarded);
    markReason();
    for (const box of checks) box.checked = accepted.includes(box.value);
    container.dataset.busy = "yes";
    updateLabel();
    reason.focus();
    reason.scrollIntoView({ block: "center" });
  });
}

/** Fills the form when another part of the page asks for it, by the event `fill`. */
function fillOnRequest(container, fill) {
  container.fillListener?.abort();
  container.fillListener = new AbortController();
  container.addEventListener("fill", ({ detail }) => fill(detail), { signal: container.fillListener.signal });
}

export function renderRollback(container, { feed, publishes, live, mayStart, now }) {
  const rollbackDag = `${feed}_rollback`;
  const possible = publishes.filter((p) => p.restorable).reverse();
  if (!possible.length) {
    container.replaceChildren();
    return;
  }
  const generation = h("select", { required: true }, possible.map((g) => h("option", { value: g.generation, title: local(g.swapped_at) },
    `${g.generation}: snapshot ${g.snapshot_id}, swapped ${moment(g.swapped_at, now)} UTC, by ${g.restorable}${g.generation === live ? "; live: if somebody changed target" : ""}`)));
  generation.value = (possible.find((g) => g.generation !== live) ?? possible[0]).generation;
  const reason = reasonField();
  runForm(container, {
    dagId: rollbackDag, mayStart, task: "show_difference",
    label: () => `Ask for the rollback to generation ${generation.value}`,
    hint: "Shows first what would change, and waits for an approval (Required Actions) before readers see anything of it.",
    after: (parameters, runId) => ["Nothing has changed yet. ", answerLink(rollbackDag, runId, "approve_rollback", "Approve or reject the rollback"), "."],
    ends: () => false,
    fields: [labelled("Generation", withTitle(generation)), labelled("Reason", reason, requiredMark())],
    conf: () => ({ generation: Number(generation.value), reason: reason.value.trim() }),
  });
}
