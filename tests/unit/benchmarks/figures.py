"""Makes figures and results of benchmarks for tests."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.results import Results, RunFigures


def run_figures(peer: str, dataset_name: str, rows: int, **values: object) -> RunFigures:
    """The figures of a run on 13 dates. `values`: other values of their fields."""
    default = RunFigures(peer, dataset_name, rows, 13, 1.0, 1.0, 0, 0, 0, 0, 0.0, 0, 0, 0, {"plans": "adopt 13"})
    return replace(default, **values)  # type: ignore[arg-type]


def results(command: str, *figures: RunFigures) -> Results:
    return Results(command, "2026-01-01 00:00", "a machine", True, figures)
