"""Compares the rates of the sizing model (runners/sizing.py), in vCPU seconds per row, with the measured rates."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.dataset_shape import Variant
from benchmarks.peers.registry import ADOPT, ROW_NUMBER
from benchmarks.results import Results, RunFigures, cpu
from dedup_clone.orchestration.runners.sizing import (
    ALL_S_PER_ROW,
    DELIVERED_S_PER_ROW,
    OLDER_S_PER_ROW,
    VCPUS_PER_CORE,
)
from dedup_clone.orchestration.runners.workload import Method

_BACKLOG = 6  # deliveries of Variant.BACKLOG_6


@dataclass(frozen=True)
class RateCheck:
    """A rate of the sizing model, and the measured rate, in vCPU seconds per row."""

    name: str
    model: float
    measured: float


def check_rates(main: Results, growth: Results, memory: Results) -> list[RateCheck]:
    """Compare with results of the sub-commands `main`, `growth` and `memory`. Rates without figures are left out.

    The rate of an adopted delivery was measured on the largest date, because a row takes longer once the fingerprint
    buckets of a date exceed the processor's cache. Corrections, older deliveries, late snapshots and `dedup.exact` were
    measured on less data. Their rate is that of an adopted delivery, times the factor by which their rows took longer
    than those of an adopted delivery on as much data.
    """
    largest = max(memory.figures_of(ADOPT), key=lambda measured: measured.rows, default=None)
    adopt = _vcpu_s([largest]) if largest else None
    backlog, in_order = _of_variant(growth, Variant.BACKLOG_6), _in_order(growth)
    delivered, both_inputs = DELIVERED_S_PER_ROW, ALL_S_PER_ROW
    correction, late = _of_variant(growth, Variant.CORRECTION), _of_variant(growth, Variant.LATE)
    exact, rewrite, join = (main.figures_of(peer) for peer in ("adopt-exact", "rewrite", ROW_NUMBER))
    checks = (
        ("newest delivery, adopted", delivered[Method.ADOPT], adopt),
        ("correction, adopted", delivered[Method.ADOPT], _scaled_rate(correction, in_order, adopt)),
        ("older delivery of a backlog", OLDER_S_PER_ROW, _older_rate(backlog, in_order, adopt)),
        ("late snapshot, filled in", delivered[Method.LATE], _scaled_rate(late, in_order, adopt)),
        ("`dedup.exact`", delivered[Method.ADOPT_EXACTLY], _scaled_rate(exact, main.figures_of(ADOPT), adopt)),
        ("rewritten, rows of parent and delivery", both_inputs[Method.REWRITE], _rate_of_both_inputs(rewrite)),
        ("joined by Spark, rows of parent and delivery", both_inputs[Method.JOIN], _rate_of_both_inputs(join)),
    )
    return [RateCheck(name, rate, measured) for name, rate, measured in checks if measured is not None]


def _of_variant(growth: Results, variant: Variant) -> list[RunFigures]:
    """The figures of peer `adopt` on the data sets of a variant."""
    return [measured for measured in growth.figures_of(ADOPT) if measured.dataset_name.startswith(f"{variant}-")]


def _in_order(growth: Results) -> list[RunFigures]:
    """The figures of one delivery in order on as many rows as the backlog of six; [] without that backlog."""
    backlog_names = {measured.dataset_name for measured in _of_variant(growth, Variant.BACKLOG_6)}
    names = {name.replace(Variant.BACKLOG_6, Variant.UNIFORM, 1) for name in backlog_names}
    return [measured for measured in growth.figures_of(ADOPT) if measured.dataset_name in names]


def _older_rate(backlog: list[RunFigures], in_order: list[RunFigures], adopt: float | None) -> float | None:
    """The rate of the backlog's older deliveries; None without figures. `adopt`: the rate of its newest delivery.

    The number of rows in the figures of a backlog is that of its newest delivery.
    """
    whole_backlog = _scaled_rate(backlog, in_order, adopt)
    return None if whole_backlog is None or adopt is None else (whole_backlog - adopt) / (_BACKLOG - 1)


def _scaled_rate(figures: list[RunFigures], baseline: list[RunFigures], adopt: float | None) -> float | None:
    """`adopt`, times the factor by which a row of `figures` took longer than one of `baseline`.

    `adopt`: the rate of an adopted delivery. Returns None if one of the three is missing.
    """
    return _vcpu_s(figures) / _vcpu_s(baseline) * adopt if figures and baseline and adopt is not None else None


def _rate_of_both_inputs(figures: list[RunFigures]) -> float | None:
    """Measured vCPU seconds per row of snapshot and parent together. The parent has about as many rows."""
    return _vcpu_s(figures) / 2 if figures else None


def _vcpu_s(figures: list[RunFigures]) -> float:
    """Measured vCPU seconds per row of the snapshot."""
    return cpu(figures) / figures[0].rows * VCPUS_PER_CORE
