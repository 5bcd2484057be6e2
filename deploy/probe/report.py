"""The probe's report in Markdown: what was assumed, how it was tried, what came out, and what stands on it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from deploy.probe.assumption import Result, Verdict
from deploy.probe.world import World


def as_markdown(results: Sequence[Result], world: World, server: str, at: datetime) -> str:
    """What does not hold comes first."""
    counts = ", ".join(f"{sum(r.verdict is verdict for r in results)} {verdict}" for verdict in Verdict)
    lines = [
        f"# Probe of {server}",
        "",
        f"{at:%Y-%m-%d %H:%M} UTC, location {world.location}. {len(results)} assumptions: {counts}. "
        f"Queries billed {world.billed_bytes / 1024**2:.0f} MiB, {world.usd:.4f} USD on demand.",
    ]
    for verdict in (Verdict.DOES_NOT_HOLD, Verdict.NOT_TRIED, Verdict.HOLDS):
        found = [result for result in results if result.verdict is verdict]
        if found:
            lines += ["", f"## {verdict.capitalize()}", "", *_table(found)]
    return "\n".join(lines) + "\n"


def _table(results: Sequence[Result]) -> list[str]:
    rows = [
        f"| `{r.assumption.name}` | {_cell(r.assumption.says)} | {_cell(r.assumption.how)} | {_cell(r.evidence)} "
        f"| {_cell(r.assumption.rule)} |"
        for r in results
    ]
    return ["| Name | Assumed | Tried | Found | What stands on it |", "| --- | --- | --- | --- | --- |", *rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
