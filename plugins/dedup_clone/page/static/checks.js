// The check results of one attempt: failures first, then warnings; passed checks are collapsed.

import { h, pill, table } from "./dom.js";

const ORDER = ["fail", "warn", "pass"];

/** The text of what a check found, with example keys or rows. */
export const found = (v) => v.examples?.length ? `${v.found}; for example ${v.examples.join("; ")}` : v.found;

function evidence(label, verdicts) {
  return table(label, [
    { title: "Verdict", short: true, cell: (v) => pill(v.level) },
    { title: "Check", short: true, cell: (v) => [v.check, h("div", { class: "muted" }, `${v.phase} the swap`)] },
    { title: "Found", words: true, cell: (v) => [found(v), v.next_step ? h("div", { class: "muted" }, `Next: ${v.next_step}`) : null] },
    { title: "Expected", words: true, cell: (v) => v.expected },
  ], verdicts);
}

export function renderChecks(container, attempts) {
  if (!attempts.length) {
    container.replaceChildren();
    return;
  }
  const newest = [...attempts].reverse();
  const verdicts = h("div", {});
  const attemptSelect = h("select", { onchange: () => show(newest[attemptSelect.selectedIndex]) }, newest.map((a) =>
    h("option", {}, `Generation ${a.generation}, snapshot ${a.snapshot_id}: ${a.published ? "published" : "not published"}`)));
  const show = (attempt) => {
    const [failed, warned, passed] = ORDER.map((level) => attempt.verdicts.filter((v) => v.level === level));
    const tally = [failed, warned, passed].filter((some) => some.length);
    verdicts.replaceChildren(h("div", {},
      h("p", {}, tally.map((some) => [pill(`${some.length} ${some[0].level}`, some[0].level), " "])),
      failed.length + warned.length ? evidence("Failed and warned", [...failed, ...warned]) : null,
      passed.length ? h("details", {}, h("summary", {}, "What passed, with its evidence"), evidence("Passed", passed)) : null));
  };
  container.replaceChildren(h("label", {}, "Attempt", attemptSelect), verdicts);
  show(newest[0]);
}
