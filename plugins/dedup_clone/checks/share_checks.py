"""Checks the shares of new, missing and changed rows against limits, and against earlier publishes.

These checks stop a snapshot that is complete and well-formed but wrong. No other check notices such a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from dedup_clone.checks.check_result import CheckResult, listed, make_result
from dedup_clone.contract.manifest import DateOutcome, Difference, KeyExample, Manifest
from dedup_clone.settings.check_settings import CheckSettings

PUBLISHES_FOR_MEDIAN = 5  # with fewer earlier publishes only the configured limit applies
DATES_SHOWN = EXAMPLES_SHOWN = 3  # dates and keys that a failed check shows
# Dates with these outcomes do not count, because no applied delivery has them.
_NOT_COMPARED = (DateOutcome.COPIED_FORWARD, DateOutcome.RESTORED, DateOutcome.ERASED)


@dataclass(frozen=True)
class ShareCheck:
    """A check of one share. `difference`: which rows count. `description`: what messages call these rows."""

    name: str
    difference: Difference
    description: str


SHARE_CHECKS = (
    ShareCheck("new_share", Difference.NEW, "new"),
    ShareCheck("survivor_share", Difference.SURVIVOR, "missing for the first time"),
    ShareCheck("changed_share", Difference.CHANGED, "changed"),
)


def shares(manifest: Manifest, parent: Manifest | None) -> dict[str, float]:
    """The share (0 to 1) of new, missing and changed rows, by the name of the check.

    Only dates count that both the parent and an applied delivery have. Without such dates each share is 0.
    `changed_share` is absent if such dates exist, but no plan compared their values.
    """
    rows = _compared_rows(manifest, parent)
    found = {check.name: _share(_counts(check, manifest, parent), rows) for check in SHARE_CHECKS}
    return {name: share for name, share in found.items() if share is not None}


def check_shares(
    manifest: Manifest,
    settings: CheckSettings,
    parent: Manifest | None,
    history: Sequence[dict[str, float]],
    examples: Iterable[KeyExample],
) -> list[CheckResult]:
    """Each share is at most its configured limit, and at most `max_times_usual` times its median in earlier publishes.

    The second limit is at least `tolerated_share`. It applies only if `max_times_usual` is set, and only after
    PUBLISHES_FOR_MEDIAN publishes. Returns one result for each share; a share that no plan counted passes. `history`:
    the shares of the earlier publishes for which `has_usual_shares` is true (state/ledger.py). `examples`: keys of rows
    that differ; a failed check shows some of them, and names the dates with the most such rows.
    """
    configured = {
        "new_share": settings.max_new_share,
        "survivor_share": settings.max_survivor_share,
        "changed_share": settings.max_changed_share,
    }
    rows, found = _compared_rows(manifest, parent), shares(manifest, parent)
    key_examples = tuple(examples)
    results = []
    for check in SHARE_CHECKS:
        share, limit = found.get(check.name), configured[check.name]
        origin = "as configured" if f"max_{check.name}" in settings.model_fields_set else "by default"
        usual = _usual_limit(check.name, settings, history)
        passed = share is None or (share <= limit and (usual is None or share <= usual.limit))
        counts = _counts(check, manifest, parent)
        text = _found(check, share, counts, rows)
        results.append(
            make_result(
                check.name,
                passed,
                found=text if passed else text + _most_affected(counts, rows) + _applied(manifest),
                expected=f"at most {limit:.2%} {origin}" + ("" if usual is None else f" and {usual}"),
                next_step=f"look at the snapshot with its producer; if it is right, replay and accept [{check.name}].",
                examples=_examples(check, counts, key_examples),
            )
        )
    return results


@dataclass(frozen=True)
class _UsualLimit:
    """The limit from earlier publishes: a multiple of the median of their shares, but at least `tolerated_share`."""

    limit: float
    median: float
    publish_count: int

    def __str__(self) -> str:
        return (
            f"{self.limit:.2%} as usual (the last {self.publish_count} publishes had {self.median:.4%} in the median)"
        )


def _usual_limit(name: str, settings: CheckSettings, history: Sequence[dict[str, float]]) -> _UsualLimit | None:
    """The limit for check `name`; None if `max_times_usual` is not set, or if too few publishes have the share."""
    earlier = [publish_shares[name] for publish_shares in history if name in publish_shares]
    if settings.max_times_usual is None or len(earlier) < PUBLISHES_FOR_MEDIAN:
        return None
    median_share = median(earlier)
    return _UsualLimit(
        max(settings.max_times_usual * median_share, settings.tolerated_share), median_share, len(earlier)
    )


def _compared_rows(manifest: Manifest, parent: Manifest | None) -> dict[date, int]:
    """The number of rows of each date that both the parent and an applied delivery have."""
    parent_dates = {e.date for e in parent.dates} if parent else set()
    return {e.date: e.rows for e in manifest.dates if e.date in parent_dates and e.plan not in _NOT_COMPARED}


def _counts(check: ShareCheck, manifest: Manifest, parent: Manifest | None) -> dict[date, int]:
    """The number of rows that the check counts, for each compared date whose plan counted them.

    Every later generation counts a survivor again, so the parent's survivors are subtracted.
    """
    parent_survivors = {e.date: e.survivors for e in parent.dates} if parent else {}
    compared, counts = _compared_rows(manifest, parent), dict[date, int]()
    for entry in manifest.dates:
        if entry.date in compared:
            count = {
                Difference.NEW: entry.new_keys,
                Difference.SURVIVOR: max(0, entry.survivors - parent_survivors[entry.date]),
                Difference.CHANGED: entry.changed,
            }[check.difference]
            if count is not None:
                counts[entry.date] = count
    return counts


def _share(counts: dict[date, int], rows: dict[date, int]) -> float | None:
    """The counted rows as a share of all rows of their dates. 0 without compared dates; None if no date has a count."""
    if rows and not counts:
        return None
    total = sum(rows[day] for day in counts)
    return sum(counts.values()) / total if total else 0.0


def _found(check: ShareCheck, share: float | None, counts: dict[date, int], rows: dict[date, int]) -> str:
    """The evidence. `counts`: how many rows the check counts, by date. `rows`: how many rows each compared date has."""
    if share is None:
        return f"not compared: no plan of this publish counted {check.description} rows"
    text = f"{sum(counts.values())} of {sum(rows[day] for day in counts)} rows {check.description} ({share:.4%})"
    uncounted = len(rows) - len(counts)
    return f"{text}; not compared on {uncounted} of {len(rows)} dates" if uncounted else text


def _most_affected(counts: dict[date, int], rows: dict[date, int]) -> str:
    return "; most on " + ", ".join(
        f"{day}: {counts[day]} of {rows[day]}" for day in _most_affected_dates(counts) if counts[day]
    )


def _applied(manifest: Manifest) -> str:
    """The deliveries that the counted rows come from, or in which they are missing."""
    return f"; of delivery {listed([f'[{d.name}]' for d in manifest.applied], between=' and ')}"


def _most_affected_dates(counts: dict[date, int]) -> list[date]:
    return sorted(counts, key=lambda day: (-counts[day], day))[:DATES_SHOWN]


def _examples(check: ShareCheck, counts: dict[date, int], examples: tuple[KeyExample, ...]) -> list[str]:
    keys = [
        e.key
        for day in _most_affected_dates(counts)
        for e in examples
        if e.date == day and e.difference is check.difference
    ]
    return keys[:EXAMPLES_SHOWN]
