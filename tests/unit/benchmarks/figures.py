"""Makes figures and results of benchmarks for tests."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.results import Figure, Results


def figure(peer: str, inputs: str, rows: int, **values: object) -> Figure:
    """A figure of a run on 13 dates. `values`: other values of its fields."""
    default = Figure(peer, inputs, rows, 13, 1.0, 1.0, 0, 0, 0, 0, 0.0, 0, 0, 0, {"plans": "adopt 13"})
    return replace(default, **values)  # type: ignore[arg-type]


def results(command: str, *figures: Figure) -> Results:
    return Results(command, "2026-01-01 00:00", "a machine", True, figures)
