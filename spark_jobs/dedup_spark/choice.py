"""Which plan each date of the new generation takes, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.request import Plan

CARRIED = "carried"
# In a choice only, never in a manifest.
KEPT = "kept"


@dataclass(frozen=True)
class Choice:
    """`plan` is a Plan's value, CARRIED (the parent's files, copied as they are) or KEPT (files and plan, too)."""

    plan: str
    reason: str


def choose(
    plan: Plan,
    delivered: Iterable[date],
    held: Iterable[date],
    obstacles: Mapping[date, str],
    asked: Collection[date] | None = None,
) -> dict[date, Choice]:
    """`delivered` are the dates that applied deliveries have, `held` those of the parent.

    `obstacles` say why a date cannot be adopted. A date that plan adopt declines later takes `instead_of_adopt`.
    `asked` are the only dates that a plan which writes all of them writes; None: all.
    """
    delivered, held = set(delivered), set(held)
    carried = Choice(CARRIED, "no applied delivery has this date")
    if plan in (Plan.WINDOW, Plan.REWRITE):
        anew = Choice(plan, "asked for: every date is written anew")
        every = sorted(delivered | held)
        return {day: anew if asked is None or day in asked else carried for day in every}
    return {
        day: _delivered(plan, day in held, obstacles.get(day)) if day in delivered else carried
        for day in sorted(delivered | held)
    }


def keep(held: Iterable[date]) -> dict[date, Choice]:
    """For a request that changes nothing."""
    choice = Choice(KEPT, "every delivery asked for is part of the parent already: nothing was read")
    return dict.fromkeys(sorted(held), choice)


def instead_of_adopt(obstacle: str) -> Choice:
    return Choice(Plan.REWRITE, f"not adopted: {obstacle}")


def _delivered(plan: Plan, is_held: bool, obstacle: str | None) -> Choice:
    if plan is Plan.ANTIJOIN:
        return Choice(plan, "asked for" if is_held else "asked for; the parent has no row of this date")
    return instead_of_adopt(obstacle) if obstacle else Choice(Plan.ADOPT, "")
