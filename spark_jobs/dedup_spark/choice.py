"""Which plan each date of the new generation takes, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.request import Plan

CARRIED = "carried"


@dataclass(frozen=True)
class Choice:
    """`plan` is a Plan's value or CARRIED (the parent's files, copied as they are)."""

    plan: str
    reason: str


def choose(
    plan: Plan, delivered: Iterable[date], held: Iterable[date], obstacles: Mapping[date, str]
) -> dict[date, Choice]:
    """`delivered` are the dates that applied deliveries have, `held` those of the parent.

    `obstacles` say why a date cannot be adopted. A date that plan adopt declines later takes `instead_of_adopt`.
    """
    delivered, held = set(delivered), set(held)
    if plan is Plan.WINDOW:
        return {day: Choice(Plan.WINDOW, "asked for: every date is written anew") for day in sorted(delivered | held)}
    carried = Choice(CARRIED, "no applied delivery has this date")
    return {
        day: _delivered(plan, day in held, obstacles.get(day)) if day in delivered else carried
        for day in sorted(delivered | held)
    }


def instead_of_adopt(obstacle: str) -> Choice:
    return Choice(Plan.ANTIJOIN, f"not adopted: {obstacle}")


def _delivered(plan: Plan, is_held: bool, obstacle: str | None) -> Choice:
    if plan is Plan.ANTIJOIN:
        return Choice(plan, "asked for" if is_held else "asked for; the parent has no row of this date")
    return instead_of_adopt(obstacle) if obstacle else Choice(Plan.ADOPT, "")
