// Replay and rollback: lists of what is possible, posted with the person's own login.

import { startRun } from "./airflow.js";
import { h } from "./dom.js";
import { runLink } from "./lists.js";
import { moment } from "./words.js";

/** A form whose button starts a run of `dagId`; `conf()` is what it is started with. */
function runForm(place, { dagId, may, fields, conf, button, hint }) {
  const answer = h("p", { class: "answer", role: "status" });
  const say = (kind, ...words) => { answer.className = `answer ${kind}`; answer.replaceChildren(...words); };
  const fieldset = h("fieldset", { disabled: !may }, fields, h("button", {}, button));
  const form = h("form", {
    oninput: () => { place.dataset.busy = "yes"; },
    onsubmit: async (event) => {
      event.preventDefault();
      fieldset.disabled = true;
      say("", "Starting …");
      try {
        const runId = await startRun(dagId, conf());
        delete place.dataset.busy;
        say("good", "Started: ", runLink(dagId, runId, runId));
      } catch (error) {
        say("bad", error.message);
      } finally {
        fieldset.disabled = !may;
      }
    },
  }, fieldset, answer);
  place.replaceChildren(
    h("p", { class: "muted" }, may ? hint : `Your role may look but not start ${dagId}. Ask somebody who may run DAGs.`), form);
}

const reasonField = () => h("input", { type: "text", required: true, maxlength: 500, autocomplete: "off" });

function options(values, first) {
  return [h("option", { value: "" }, first), values.map((value) => h("option", { value }, value))];
}

export function renderReplay(place, { replayable, choices, engine, may, now }) {
  if (!replayable.length) {
    place.replaceChildren(h("p", { class: "muted" }, "There is no snapshot to replay yet."));
    return;
  }
  const delivery = h("select", { required: true }, replayable.map((a, number) =>
    h("option", { value: number }, `${a.snapshot_id}, arrived ${moment(a.arrived_at, now)}: ${a.fate}`)));
  const engines = h("select", {}, options(choices.engines, `as the feed says (${engine})`));
  const plans = h("select", {}, options(choices.plans, "as the feed says"));
  const checks = choices.acceptable_checks.map((name) => h("input", { type: "checkbox", value: name }));
  const reason = reasonField();
  runForm(place, {
    dagId: choices.publish_dag, may, button: "Replay",
    hint: "Publishes one delivery again, on top of what readers see now. Publishing what is right already changes nothing.",
    fields: [
      h("label", {}, "Snapshot", delivery),
      h("div", { class: "pair" }, h("label", {}, "Engine", engines), h("label", {}, "Plan", plans)),
      h("fieldset", {}, h("legend", {}, "Checks that may fail this time"),
        h("div", {}, checks.map((box) => h("label", { class: "option" }, box, box.value)))),
      h("label", {}, "Reason", reason),
    ],
    conf: () => {
      const chosen = replayable[Number(delivery.value)];
      return {
        snapshot_id: chosen.snapshot_id,
        marker_generation: chosen.marker_generation,
        engine: engines.value || null,
        plan: plans.value || null,
        accepted_checks: checks.filter((box) => box.checked).map((box) => box.value),
        reason: reason.value.trim(),
      };
    },
  });
}

export function renderRollback(place, { generations, choices, may, now }) {
  const possible = generations.filter((g) => g.restorable);
  if (!possible.length) {
    place.replaceChildren(h("p", { class: "muted" }, "There is no earlier generation that can be made live again."));
    return;
  }
  const generation = h("select", { required: true }, possible.map((g) => h("option", { value: g.generation },
    `${g.generation}: snapshot ${g.snapshot_id}, swapped ${moment(g.swapped_at, now)}, by ${g.restorable}`)));
  const reason = reasonField();
  runForm(place, {
    dagId: choices.rollback_dag, may, button: "Ask for the rollback",
    hint: "Shows first what would change, and waits for an approval (Required Actions) before readers see anything of it.",
    fields: [h("label", {}, "Generation", generation), h("label", {}, "Reason", reason)],
    conf: () => ({ generation: Number(generation.value), reason: reason.value.trim() }),
  });
}
