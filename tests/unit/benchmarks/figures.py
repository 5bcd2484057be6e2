"""Figures as a benchmark leaves them, for tests of what is made from them."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.results import Figure, Results


def figure(peer: str, inputs: str, rows: int, **values: object) -> Figure:
    plain = Figure(peer, inputs, rows, 13, 1.0, 1.0, 0, 0, 0, 0, 0.0, 0, 0, 0, {"plans": "adopt 13"})
    return replace(plain, **values)  # type: ignore[arg-type]


def results(command: str, *figures: Figure) -> Results:
    return Results(command, "2026-01-01 00:00", "a machine", True, figures)
