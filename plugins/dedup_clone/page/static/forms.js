// The forms for replay and rollback. They start runs with the user's own login.

import { firstTaskResult, startRun } from "./airflow.js";
import { h } from "./dom.js";
import { runLink } from "./lists.js";
import { moment } from "./formats.js";

const DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}";
const DATES = `${DATE}([.][.]${DATE})?`;

/**
 * A form whose button starts a run of `dagId` with `conf()`, and shows whether its first task, `task`, refused it.
 * `shows(conf)`: whether the task's result, a text, is shown, because the run does nothing else.
 */
function runForm(container, { dagId, may, fields, conf, button, hint, task, shows = () => false }) {
  const answer = h("p", { class: "answer", role: "status" });
  const report = (kind, ...words) => { answer.className = `answer ${kind}`; answer.replaceChildren(...words); };
  const shown = h("div", { class: "result" });
  const fieldset = h("fieldset", { disabled: !may }, fields, h("button", {}, button));
  const form = h("form", {
    oninput: () => { container.dataset.busy = "yes"; },
    onsubmit: async (event) => {
      event.preventDefault();
      fieldset.disabled = true;
      report("", "Starting …");
      shown.replaceChildren();
      try {
        const parameters = conf();
        const runId = await startRun(dagId, parameters);
        report("good", "Started: ", runLink(dagId, runId, runId));
        const result = await firstTaskResult(dagId, runId, task);
        if (!shows(parameters)) delete container.dataset.busy;
        if (result !== null && shows(parameters)) {
          const { text } = result;
          shown.replaceChildren(h("pre", { tabindex: 0, role: "region", "aria-label": "What it would do" }, text));
          report("good", "Nothing was changed: ", runLink(dagId, runId, runId));
        }
      } catch (error) {
        report("bad", error.message);
      } finally {
        fieldset.disabled = !may;
      }
    },
  }, fieldset, answer, shown);
  container.replaceChildren(
    h("p", { class: "muted" }, may ? hint : `Your role may look but not start ${dagId}. Ask a user who may run DAGs.`), form);
}

const reasonField = () => h("input", { type: "text", required: true, maxlength: 500, autocomplete: "off" });

function options(values, first) {
  return [h("option", { value: "" }, first), values.map((value) => h("option", { value }, value))];
}

export function renderReplay(container, { replayable, choices, engine, may, now }) {
  if (!replayable.length) {
    container.replaceChildren(h("p", { class: "muted" }, "There is no snapshot to replay yet."));
    return;
  }
  const delivery = h("select", { required: true }, replayable.map((a, number) =>
    h("option", { value: number }, `${a.snapshot_id}, arrived ${moment(a.arrived_at, now)}: ${a.fate}`)));
  const engines = h("select", {}, options(choices.engines, `as the feed says (${engine})`));
  const plans = h("select", {}, options(choices.plans, "as the feed says"));
  const checks = choices.acceptable_checks.map((name) => h("input", { type: "checkbox", value: name }));
  const reason = reasonField();
  const dates = h("input", {
    type: "text", pattern: ` *(${DATES}( *, *${DATES})*)? *`, autocomplete: "off", placeholder: "all of them",
    title: "Dates or ranges, with commas: 2026-01-01..2026-01-31, 2026-02-03",
  });
  const fill = ({ detail: { snapshot, marker, checks: accepted } }) => {
    delivery.value = replayable.findIndex((a) => a.snapshot_id === snapshot && a.marker_generation === marker);
    for (const box of checks) box.checked = accepted.includes(box.value);
    container.dataset.busy = "yes";
    reason.focus();
    reason.scrollIntoView({ block: "center" });
  };
  container.onfill?.abort();
  container.onfill = new AbortController();
  container.addEventListener("fill", fill, { signal: container.onfill.signal });
  const dryRun = h("input", { type: "checkbox", onchange: () => { reason.required = !dryRun.checked; } });
  runForm(container, {
    dagId: choices.publish_dag, may, button: "Replay",
    task: "resolve_publish", shows: (parameters) => parameters.dry_run,
    hint: "Publishes one delivery again, on top of what readers see now. Publishing what is live already changes nothing.",
    fields: [
      h("label", {}, "Snapshot", delivery),
      h("label", {}, "Only these dates (2026-01-01..2026-01-31, 2026-02-03)", dates),
      h("div", { class: "pair" }, h("label", {}, "Engine", engines), h("label", {}, "Plan", plans)),
      h("fieldset", {}, h("legend", {}, "Checks that may fail this time"),
        h("div", {}, checks.map((box) => h("label", { class: "option" }, box, box.value)))),
      h("label", {}, "Reason", reason),
      h("label", { class: "option" }, dryRun, "Dry run: only show what it would do"),
    ],
    conf: () => {
      const chosen = replayable[Number(delivery.value)];
      return {
        snapshot_id: chosen.snapshot_id,
        marker_generation: chosen.marker_generation,
        dates: dates.value.split(",").map((text) => text.trim()).filter((text) => text),
        engine: engines.value || null,
        plan: plans.value || null,
        accepted_checks: checks.filter((box) => box.checked).map((box) => box.value),
        dry_run: dryRun.checked,
        reason: reason.value.trim(),
      };
    },
  });
}

export function renderRollback(container, { generations, choices, may, now }) {
  const possible = generations.filter((g) => g.restorable);
  if (!possible.length) {
    container.replaceChildren(h("p", { class: "muted" }, "There is no earlier generation that can be made live again."));
    return;
  }
  const generation = h("select", { required: true }, possible.map((g) => h("option", { value: g.generation },
    `${g.generation}: snapshot ${g.snapshot_id}, swapped ${moment(g.swapped_at, now)}, by ${g.restorable}`)));
  const reason = reasonField();
  runForm(container, {
    dagId: choices.rollback_dag, may, button: "Request the rollback", task: "show_difference",
    hint: "Shows first what would change, and waits for an approval (Required Actions) before readers see anything of it.",
    fields: [h("label", {}, "Generation", generation), h("label", {}, "Reason", reason)],
    conf: () => ({ generation: Number(generation.value), reason: reason.value.trim() }),
  });
}
