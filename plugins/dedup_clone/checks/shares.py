"""The circuit breaker: is as much new, missing and changed as with the snapshots before? A bad complete snapshot is
likelier than a crash, and no other check sees it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from dedup_clone.checks.verdicts import Verdict, verdict
from dedup_clone.contract.manifest import Difference, KeyExample, Manifest
from dedup_clone.settings.feed import CheckSettings

PUBLISHES_COMPARED = 20
PUBLISHES_NEEDED = 5  # with fewer, nothing is usual yet
DATES_NAMED = 3
NOT_BROUGHT = ("carried", "restored")  # plans of dates that no applied delivery has


@dataclass(frozen=True)
class ShareCheck:
    """One share: which rows it counts and the words for them."""

    name: str
    difference: Difference
    rows: str


SHARE_CHECKS = (
    ShareCheck("new_share", Difference.NEW, "new"),
    ShareCheck("survivor_share", Difference.SURVIVOR, "missing for the first time"),
    ShareCheck("changed_share", Difference.CHANGED, "changed"),
)


def shares(manifest: Manifest, parent: Manifest | None) -> dict[str, float]:
    """Each share (0 to 1) of the rows of the dates that the parent had and a delivery brought, by check name.

    A share of which nothing is known, because values were not compared, is left out.
    """
    rows = _rows(manifest, parent)
    found = {check.name: _share(_counts(check, manifest, parent), rows) for check in SHARE_CHECKS}
    return {name: share for name, share in found.items() if share is not None}


def shares_within_bounds(
    manifest: Manifest,
    settings: CheckSettings,
    parent: Manifest | None,
    history: Sequence[dict[str, float]],
    examples: Iterable[KeyExample],
) -> list[Verdict]:
    """Each share against its configured bound and against the publishes before (`history`: their shares, any order).

    A fail names the dates that stand out and a few of their keys.
    """
    configured = {
        "new_share": settings.max_new_share,
        "survivor_share": settings.max_survivor_share,
        "changed_share": settings.max_changed_share,
    }
    rows, found = _rows(manifest, parent), shares(manifest, parent)
    keys = tuple(examples)
    verdicts = []
    for check in SHARE_CHECKS:
        share, bound = found.get(check.name), configured[check.name]
        usual = _usual(check.name, settings, history)
        good = share is None or (share <= bound and (usual is None or share <= usual.bound))
        counts = _counts(check, manifest, parent)
        text = _found(check, share, counts, rows)
        verdicts.append(
            verdict(
                check.name,
                good,
                found=text if good else text + _standing_out(check, counts, rows, keys),
                expected=f"at most {bound:.2%} as configured" + ("" if usual is None else f" and {usual}"),
                next_step=f"look at the snapshot with its producer; if it is right, rerun and accept [{check.name}].",
            )
        )
    return verdicts


@dataclass(frozen=True)
class _Usual:
    bound: float
    median: float
    publishes: int

    def __str__(self) -> str:
        return f"{self.bound:.2%} as usual (the last {self.publishes} publishes had {self.median:.4%} in the median)"


def _usual(name: str, settings: CheckSettings, history: Sequence[dict[str, float]]) -> _Usual | None:
    seen = [record[name] for record in history if name in record]
    if settings.max_times_usual is None or len(seen) < PUBLISHES_NEEDED:
        return None
    middle = median(seen)
    return _Usual(max(settings.max_times_usual * middle, settings.tolerated_share), middle, len(seen))


def _rows(manifest: Manifest, parent: Manifest | None) -> dict[date, int]:
    """Rows of the dates that a share is of."""
    known = {e.date for e in parent.dates} if parent else set()
    return {e.date: e.rows for e in manifest.dates if e.date in known and e.plan not in NOT_BROUGHT}


def _counts(check: ShareCheck, manifest: Manifest, parent: Manifest | None) -> dict[date, int]:
    """Of the dates whose plan counted. Survivors stay survivors for as long as their date lives: only those count that
    the parent did not have."""
    before = {e.date: e.survivors for e in parent.dates} if parent else {}
    counted = _rows(manifest, parent)
    counts = {}
    for entry in manifest.dates:
        if entry.date in counted:
            counts[entry.date] = {
                Difference.NEW: entry.new_keys,
                Difference.SURVIVOR: max(0, entry.survivors - before[entry.date]),
                Difference.CHANGED: entry.changed,
            }[check.difference]
    return {day: count for day, count in counts.items() if count is not None}


def _share(counts: dict[date, int], rows: dict[date, int]) -> float | None:
    """Of the rows of the dates that were counted; None where there are dates and none of them was."""
    if rows and not counts:
        return None
    total = sum(rows[day] for day in counts)
    return sum(counts.values()) / total if total else 0.0


def _found(check: ShareCheck, share: float | None, counts: dict[date, int], rows: dict[date, int]) -> str:
    if share is None:
        return f"not compared: no plan of this publish counted {check.rows} rows"
    text = f"{sum(counts.values())} of {sum(rows[day] for day in counts)} rows {check.rows} ({share:.4%})"
    left = len(rows) - len(counts)
    return f"{text}; not compared on {left} of {len(rows)} dates" if left else text


def _standing_out(
    check: ShareCheck, counts: dict[date, int], rows: dict[date, int], examples: tuple[KeyExample, ...]
) -> str:
    worst = sorted(counts, key=lambda day: (-counts[day], day))[:DATES_NAMED]
    dates = ", ".join(f"{day}: {counts[day]} of {rows[day]}" for day in worst if counts[day])
    keys = [e.key for day in worst for e in examples if e.date == day and e.difference is check.difference]
    return f"; most on {dates}" + (f"; for example {'; '.join(keys[:DATES_NAMED])}" if keys else "")
