"""Writes the probe's report in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from deploy.probe.assumption import ProbeVerdict, Result
from deploy.probe.probe_dataset import ProbeDataset


def as_markdown(results: Sequence[Result], probe: ProbeDataset, server: str, at: datetime) -> str:
    """The report, with the assumptions that do not hold first."""
    counts = ", ".join(f"{sum(r.verdict is verdict for r in results)} {verdict}" for verdict in ProbeVerdict)
    lines = [
        f"# Probe of {server}",
        "",
        f"{at:%Y-%m-%d %H:%M} UTC, location {probe.location}. {len(results)} assumptions: {counts}. "
        f"Queries billed {probe.billed_bytes / 1024**2:.0f} MiB, {probe.usd:.4f} USD on demand.",
    ]
    for verdict in (ProbeVerdict.DOES_NOT_HOLD, ProbeVerdict.NOT_TRIED, ProbeVerdict.HOLDS):
        found = [result for result in results if result.verdict is verdict]
        if found:
            lines += ["", f"## {verdict.capitalize()}", "", *_table(found)]
    return "\n".join(lines) + "\n"


def _table(results: Sequence[Result]) -> list[str]:
    rows = [
        f"| `{r.assumption.name}` | {_cell(r.assumption.statement)} | {_cell(r.assumption.how)} | {_cell(r.evidence)} "
        f"| {_cell(r.assumption.rule)} | {_cell(', '.join(r.assumption.code))} | {_cell(r.assumption.instead)} |"
        for r in results
    ]
    titles = ("Name", "Assumption", "Test", "Found", "What depends on it", "Code", "If it does not hold")
    return [f"| {' | '.join(titles)} |", f"|{' --- |' * len(titles)}", *rows]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
