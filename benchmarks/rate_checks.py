"""Compares the rates of the sizing model, in vCPU seconds per row, with the rates that the benchmarks measured."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.dataset_shape import Variant
from benchmarks.peers.registry import ADOPT, ROW_NUMBER
from benchmarks.results import Figure, Results, cpu
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
    """Compare with results of the sub-commands `main`, `growth` and `memory`. Rates without results are left out.

    The rate of plan adopt was measured on the largest date, because a row takes longer once the fingerprint buckets of
    a date exceed the processor's cache. The other publishes of delivered rows were measured on smaller dates, as was
    one delivery in order. Their rate is the rate of adopt, multiplied by the ratio of both times for a row.
    """
    adopt = _vcpu_s([max(memory.figures_of(ADOPT), key=lambda figure: figure.rows)])
    backlog, in_order = _of_variant(growth, Variant.BACKLOG_6), _in_order(growth)
    # The time for a row of one of the backlog's older deliveries, divided by the time for a row of its newest.
    older_to_newest = (_vcpu_s(backlog) / _vcpu_s(in_order) - 1) / (_BACKLOG - 1) if backlog else None
    delivered, both_inputs = DELIVERED_S_PER_ROW, ALL_S_PER_ROW
    correction, late = _of_variant(growth, Variant.CORRECTION), _of_variant(growth, Variant.LATE)
    exact, rewrite, join = (main.figures_of(peer) for peer in ("adopt-exact", "rewrite", ROW_NUMBER))
    checks = (
        ("newest delivery, adopted", delivered[Method.ADOPT], adopt),
        ("correction, adopted", delivered[Method.ADOPT], _scaled_rate(correction, in_order, adopt)),
        ("older delivery of a backlog", OLDER_S_PER_ROW, older_to_newest and older_to_newest * adopt),
        ("late snapshot, filled in", delivered[Method.LATE], _scaled_rate(late, in_order, adopt)),
        ("`dedup.exact`", delivered[Method.ADOPT_EXACTLY], _scaled_rate(exact, main.figures_of(ADOPT), adopt)),
        ("rewritten, rows of parent and delivery", both_inputs[Method.REWRITE], _rate_of_both_inputs(rewrite)),
        ("joined by Spark, rows of parent and delivery", both_inputs[Method.JOIN], _rate_of_both_inputs(join)),
    )
    return [RateCheck(name, rate, measured) for name, rate, measured in checks if measured is not None]


def _of_variant(growth: Results, variant: Variant) -> list[Figure]:
    """The figures of plan adopt on the data sets of a variant."""
    return [figure for figure in growth.figures_of(ADOPT) if figure.inputs.startswith(f"{variant}-")]


def _in_order(growth: Results) -> list[Figure]:
    """The figures of one delivery in order on as many rows as the backlog of six; [] without that backlog."""
    names = {f.inputs.replace(Variant.BACKLOG_6, Variant.UNIFORM, 1) for f in _of_variant(growth, Variant.BACKLOG_6)}
    return [figure for figure in growth.figures_of(ADOPT) if figure.inputs in names]


def _scaled_rate(figures: list[Figure], baseline: list[Figure], rate: float) -> float | None:
    """`rate`, multiplied by how much longer a row of `figures` takes than a row of `baseline`; None without figures."""
    return _vcpu_s(figures) / _vcpu_s(baseline) * rate if figures and baseline else None


def _rate_of_both_inputs(figures: list[Figure]) -> float | None:
    """Measured vCPU seconds per row of snapshot and parent together. The parent has about as many rows."""
    return _vcpu_s(figures) / 2 if figures else None


def _vcpu_s(figures: list[Figure]) -> float:
    """Measured vCPU seconds per row of the snapshot."""
    return cpu(figures) / figures[0].rows * VCPUS_PER_CORE
