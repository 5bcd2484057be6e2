"""Which plan each date of the new generation takes, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.request import Plan

CARRIED = "carried"


@dataclass(frozen=True)
class Choice:
    """`plan` is a Plan's value or CARRIED (the parent's files, copied as they are)."""

    plan: str
    reason: str


def choose(plan: Plan, delivered: Iterable[date], held: Iterable[date]) -> dict[date, Choice]:
    """`delivered` are the dates that applied deliveries have, `held` those of the parent."""
    delivered, held = set(delivered), set(held)
    if plan is Plan.WINDOW:
        return {day: Choice(Plan.WINDOW, "asked for: every date is written anew") for day in sorted(delivered | held)}
    known, first = (
        ("asked for", "asked for; the parent has no row of this date")
        if plan is Plan.ANTIJOIN
        else ("any keys, any order of snapshots", "the parent has no row of this date: nothing to join")
    )
    carried = Choice(CARRIED, "no applied delivery has this date")
    return {
        day: Choice(Plan.ANTIJOIN, known if day in held else first) if day in delivered else carried
        for day in sorted(delivered | held)
    }
