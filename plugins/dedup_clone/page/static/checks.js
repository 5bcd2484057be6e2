// The verdicts of an attempt with their evidence: what failed first, then warnings, then passes.

import { h, pill, table } from "./dom.js";

const ORDER = ["fail", "warn", "pass"];

export function renderChecks(place, attempts) {
  if (!attempts.length) {
    place.replaceChildren(h("p", { class: "muted" }, "Checks run before and after each swap; their verdicts appear here."));
    return;
  }
  const newest = [...attempts].reverse();
  const verdicts = h("div", {});
  const choice = h("select", { onchange: () => show(newest[choice.selectedIndex]) }, newest.map((a) =>
    h("option", {}, `Generation ${a.generation}, snapshot ${a.snapshot_id}: ${a.published ? "published" : "not published"}`)));
  const show = (attempt) => {
    const sorted = [...attempt.verdicts].sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level));
    const tally = ORDER.map((level) => [level, sorted.filter((v) => v.level === level).length]).filter(([, n]) => n);
    verdicts.replaceChildren(
      h("p", {}, tally.map(([level, n]) => [pill(`${n} ${level}`, level), " "])),
      table("Verdicts", [
        { title: "Verdict", short: true, cell: (v) => pill(v.level) },
        { title: "Check", short: true, cell: (v) => [v.check, h("div", { class: "muted" }, `${v.phase} the swap`)] },
        { title: "Found", words: true, cell: (v) => [v.found, v.next_step ? h("div", { class: "muted" }, `Next: ${v.next_step}`) : null] },
        { title: "Expected", words: true, cell: (v) => v.expected },
      ], sorted));
  };
  place.replaceChildren(h("label", {}, "Attempt", choice), verdicts);
  show(newest[0]);
}
