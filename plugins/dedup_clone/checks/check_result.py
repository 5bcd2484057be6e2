"""Defines the result of a check with its evidence, and decides whether a list of results ends the run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.settings.check_settings import SQL_CHECK_PREFIX

# Checks before the swap whose failure an operator may accept, with a reason, in a replay. SQL checks may be accepted,
# too (`may_be_accepted`).
ACCEPTABLE_CHECKS = (
    "changed_share",
    "deleted_share",
    "duplicate_keys",
    "missing_dates",
    "new_share",
    "survivor_share",
)


class Level(StrEnum):
    """Whether a check passed. Only FAIL ends the run."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


_ACCEPTED_PREFIX = "accepted by the operator: "


@dataclass(frozen=True)
class CheckResult:
    """The outcome of the check named `check`.

    `found`, `expected`: the evidence, as text. `next_step`: what the operator should do, or why an operator accepted
    the failure; not shown if the check passed. `examples`: keys or rows of the feed that show what was found. They are
    stored with the attempt and shown on the page, but are in no log, error, alert or table: an erasure of keys deletes
    them with the attempt. `is_misconfigured`: the check itself is wrong, such as an invalid query, and says nothing
    about the data.
    """

    check: str
    level: Level
    found: str
    expected: str
    next_step: str = ""
    examples: tuple[str, ...] = ()
    is_misconfigured: bool = False

    @property
    def concerns_data(self) -> bool:
        """Whether the check's failure is the data's, and not that of settings, tables or the check itself."""
        return may_be_accepted(self.check) and not self.is_misconfigured

    @property
    def evidence(self) -> str:
        return f"{self.check}: {self.found}, expected {self.expected}"

    def __str__(self) -> str:
        line = f"{self.level.upper()} {self.check}: [{self.found}], expected [{self.expected}]"
        return line if self.level is Level.PASS else f"{line}: {self.next_step}"


@dataclass(frozen=True)
class CheckResults:
    """All results of one phase of a publish: `before` or `after` the swap."""

    phase: str
    items: tuple[CheckResult, ...]


def make_result(
    check: str,
    passed: bool,
    *,
    found: str,
    expected: str,
    next_step: str,
    otherwise: Level = Level.FAIL,
    examples: Collection[str] = (),
) -> CheckResult:
    """The result of a check, at level PASS if it `passed`, else at level `otherwise`.

    Operators read `found` and `expected`: write prose, not Python values.
    """
    if passed:
        return CheckResult(check, Level.PASS, found, expected)
    return CheckResult(check, otherwise, found, expected, next_step, tuple(examples))


def listed(items: Collection[object], *, between: str = ", ", most: int = 5) -> str:
    """The first `most` items as text, and how many more there are; `none` for an empty collection."""
    shown = between.join(map(str, list(items)[:most])) or "none"
    return f"{shown}{between}and {len(items) - most} more" if len(items) > most else shown


def may_be_accepted(check: str) -> bool:
    """Whether an operator may accept that the check named `check` failed."""
    return check in ACCEPTABLE_CHECKS or check.startswith(SQL_CHECK_PREFIX)


def accept(results: Iterable[CheckResult], accepted: Collection[str], reason: str) -> tuple[CheckResult, ...]:
    """The results, with the failures of `accepted` checks turned into warnings that quote the operator's reason."""
    return tuple(
        replace(r, level=Level.WARN, next_step=f"{_ACCEPTED_PREFIX}{reason}")
        if r.level is Level.FAIL and r.check in accepted
        else r
        for r in results
    )


def accepted_failures(results: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """The warnings that were failures before `accept` changed them."""
    return tuple(r for r in results if r.level is Level.WARN and r.next_step.startswith(_ACCEPTED_PREFIX))


def failures(results: CheckResults | None, *, with_accepted: bool = False) -> tuple[CheckResult, ...]:
    """The checks that failed; none without results. `with_accepted`: those whose failure the operator accepted, too."""
    items = results.items if results else ()
    accepted = accepted_failures(items) if with_accepted else ()
    return tuple(r for r in items if r.level is Level.FAIL or r in accepted)


def require_no_failure(results: CheckResults, consequence: str) -> None:
    """Raise CheckFailed, which lists all failures, if a check failed. `consequence`: what this means for target."""
    failed = [str(r) for r in failures(results)]
    if failed:
        lines = "\n  ".join(failed)
        raise CheckFailed(f"{len(failed)} check(s) {results.phase} the swap failed. {consequence}\n  {lines}")


def without_examples(results: Iterable[CheckResult]) -> tuple[CheckResult, ...]:
    """The results as records keep them that an erasure of keys does not delete."""
    return tuple(replace(result, examples=()) for result in results)


def stopped_by(failed: Iterable[CheckResult]) -> str:
    """Which checks stopped a publish, and what they found."""
    return "stopped by " + "; ".join(f"check [{r.check}]: {r.found}, expected {r.expected}" for r in failed)


def next_step_after_checks(failed: Collection[CheckResult]) -> str:
    """What the operator should do about a publish that the `failed` checks stopped before the swap; empty if none.

    If some of them do not concern the data, only the `next_step` of each of these is returned.
    """
    if not failed:
        return ""
    of_surroundings = [f"[{result.check}]: {result.next_step}" for result in failed if not result.concerns_data]
    if of_surroundings:
        return " ".join(of_surroundings)
    names = ", ".join(f"[{result.check}]" for result in failed)
    return (
        f"look at the snapshot with its producer. If it is right, replay it and accept {names} with a reason (page "
        f"Snapshots). If it is wrong, discard it there: later snapshots are published without it."
    )
