"""A check's verdict with its evidence, and what a list of verdicts means for the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from dedup_clone.contract.errors import CheckFailed

# Checks before the swap that an operator may accept on a rerun, with a reason.
ACCEPTABLE_CHECKS = ("changed_share", "duplicate_keys", "missing_dates", "new_share", "survivor_share")


class Level(StrEnum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


_ACCEPTED = "accepted by the operator: "


@dataclass(frozen=True)
class Verdict:
    """`found` and `expected` are the evidence; `next_step` is what the operator does when it is not a pass."""

    check: str
    level: Level
    found: str
    expected: str
    next_step: str = ""

    def __str__(self) -> str:
        line = f"{self.level.upper()} {self.check}: [{self.found}], expected [{self.expected}]"
        return line if self.level is Level.PASS else f"{line}: {self.next_step}"


@dataclass(frozen=True)
class Verdicts:
    """All verdicts of one phase of a publish (before or after the swap)."""

    phase: str
    items: tuple[Verdict, ...]


def verdict(
    check: str, good: bool, *, found: str, expected: str, next_step: str, otherwise: Level = Level.FAIL
) -> Verdict:
    """PASS when `good`, else `otherwise`. The evidence is read by people: words, not what Python calls things."""
    level = Level.PASS if good else otherwise
    return Verdict(check, level, found, expected, "" if good else next_step)


def listed(things: Collection[object], *, between: str = ", ", most: int = 5) -> str:
    """The first of them, and how many more there are; `none` where there are none."""
    shown = between.join(map(str, list(things)[:most])) or "none"
    return f"{shown}{between}and {len(things) - most} more" if len(things) > most else shown


def accept(verdicts: Iterable[Verdict], accepted: Iterable[str], reason: str) -> tuple[Verdict, ...]:
    """Turn the fails of checks that an operator accepts by name into warnings that keep the reason."""
    names = set(accepted)
    return tuple(
        Verdict(v.check, Level.WARN, v.found, v.expected, f"{_ACCEPTED}{reason}")
        if v.level is Level.FAIL and v.check in names
        else v
        for v in verdicts
    )


def accepted_fails(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """The fails that `accept` turned into warnings."""
    return tuple(v for v in verdicts if v.level is Level.WARN and v.next_step.startswith(_ACCEPTED))


def require(verdicts: Verdicts, consequence: str) -> None:
    """Raise CheckFailed with every fail, if there is one. `consequence` says what readers see now."""
    failed = [str(v) for v in verdicts.items if v.level is Level.FAIL]
    if failed:
        lines = "\n  ".join(failed)
        raise CheckFailed(f"{len(failed)} check(s) {verdicts.phase} the swap failed. {consequence}\n  {lines}")
