"""Compares the rates of the sizing model, in seconds of a vCPU per row, with what the benchmarks measured."""

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
    """A rate of the sizing model, and the measured one."""

    what: str
    model: float
    measured: float


def rate_checks(main: Results, growth: Results, memory: Results) -> list[RateCheck]:
    """Compare with results of the sub-commands `main`, `growth` and `memory`; leave out what they did not measure.

    The rate of plan adopt was measured on the largest date, because a row takes longer once the fingerprint buckets of
    a date exceed the processor's cache. The other rates of delivered rows are in proportion to it: they were measured
    beside one delivery in order on smaller dates.
    """
    adopt = _vcpu_s([max(memory.of(ADOPT), key=lambda one: one.rows)])
    backlog, one = _of_variant(growth, Variant.BACKLOG_6), _in_order(growth)
    older_to_one = (_vcpu_s(backlog) / _vcpu_s(one) - 1) / (_BACKLOG - 1) if backlog else None
    delivered, both = DELIVERED_S_PER_ROW, ALL_S_PER_ROW
    checks = (
        ("newest delivery, adopted", delivered[Method.ADOPT], adopt),
        ("correction, adopted", delivered[Method.ADOPT], _ratio(_of_variant(growth, Variant.CORRECTION), one, adopt)),
        ("older delivery of a backlog", OLDER_S_PER_ROW, older_to_one and older_to_one * adopt),
        ("late snapshot, filled in", delivered[Method.LATE], _ratio(_of_variant(growth, Variant.LATE), one, adopt)),
        ("`dedup.exact`", delivered[Method.ADOPT_EXACTLY], _ratio(main.of("adopt-exact"), main.of(ADOPT), adopt)),
        ("rewritten, rows of both sides", both[Method.REWRITE], _of_both_sides(main.of("rewrite"))),
        ("joined by Spark, rows of both sides", both[Method.JOIN], _of_both_sides(main.of(ROW_NUMBER))),
    )
    return [RateCheck(what, rate, measured) for what, rate, measured in checks if measured is not None]


def _of_variant(growth: Results, variant: Variant) -> list[Figure]:
    return [figure for figure in growth.of(ADOPT) if figure.inputs.startswith(f"{variant}-")]


def _in_order(growth: Results) -> list[Figure]:
    """The figures of one delivery in order, on the data set that is as large as the backlog's; [] without a backlog."""
    names = {f.inputs.replace(Variant.BACKLOG_6, Variant.UNIFORM, 1) for f in _of_variant(growth, Variant.BACKLOG_6)}
    return [figure for figure in growth.of(ADOPT) if figure.inputs in names]


def _ratio(figures: list[Figure], beside: list[Figure], rate: float) -> float | None:
    """`rate`, multiplied by how much longer a row of `figures` takes than one of `beside`."""
    return _vcpu_s(figures) / _vcpu_s(beside) * rate if figures and beside else None


def _of_both_sides(figures: list[Figure]) -> float | None:
    """Seconds for each row of the snapshot and of the parent, which has about as many."""
    return _vcpu_s(figures) / 2 if figures else None


def _vcpu_s(figures: list[Figure]) -> float:
    """Measured seconds of a vCPU per row of the snapshot."""
    return cpu(figures) / figures[0].rows * VCPUS_PER_CORE
