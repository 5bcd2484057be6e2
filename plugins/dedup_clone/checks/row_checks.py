"""Checks a new generation's rows by its manifest: keys, dates, duplicates, and shares of new, missing and changed rows.

These checks stop a snapshot that is complete and well-formed but wrong. No other check notices such a snapshot.

The docstring of a function `check_…` is the condition under which the check passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from dedup_clone.checks.check_result import CheckResult, Level, listed, make_result
from dedup_clone.contract.manifest import Candidate, DateOutcome, Difference, FileList, KeyExample, Manifest
from dedup_clone.settings.check_settings import CheckSettings, DuplicateKeys

# BigQuery's quota for one table. A load modifies every partition of staging, a swap every partition of target.
PARTITION_MODIFICATIONS_PER_DAY = 30_000
MIN_OVERLAP_FOR_HINT = 0.5  # as a share of the row groups


def check_keys_unique(manifest: Manifest, files: FileList | None) -> CheckResult:
    """On every date the files have as many rows as the manifest has unique keys.

    `files`: None for an SQL engine, which leaves no files. Its dedup task counted the keys by a query, and the check
    `staging_rows` compares that count with the rows in staging.
    """
    if files is None:
        return CheckResult(
            "keys_unique", Level.PASS, f"{manifest.rows} keys counted in BigQuery", "staging_rows passes"
        )
    rows: Counter[object] = Counter()
    for file in files.files:
        rows[file.date] += file.rows
    wrong_dates = [str(e.date) for e in manifest.dates if rows[e.date] != e.rows] + [
        str(day) for day in rows.keys() - {e.date for e in manifest.dates}
    ]
    return make_result(
        "keys_unique",
        not wrong_dates,
        found=f"other counts on {listed(wrong_dates)}"
        if wrong_dates
        else f"{manifest.rows} rows, {manifest.rows} keys",
        expected="as many rows in files as unique keys in the manifest, on every date",
        next_step="the dedup job wrote a wrong manifest: clear the run from its first task and report it.",
    )


def check_missing_dates(
    manifest: Manifest, settings: CheckSettings, replayed: Container[date] | None = None
) -> CheckResult:
    """The applied deliveries lack at most `checks.max_missing_dates` of the generation's dates.

    `replayed`: the dates of a replay that names dates: only these are examined. None for every other publish.
    """
    missing = [
        str(e.date)
        for e in manifest.dates
        if e.plan == DateOutcome.COPIED_FORWARD and (replayed is None or e.date in replayed)
    ]
    return make_result(
        "missing_dates",
        len(missing) <= settings.max_missing_dates,
        found=f"{len(missing)} missing: {listed(missing)}" if missing else "none missing",
        expected=f"at most {settings.max_missing_dates} missing",
        next_step="ask the producer why these dates are missing; if that is right, replay and accept [missing_dates].",
    )


def check_duplicate_keys(candidate: Candidate, settings: CheckSettings) -> CheckResult:
    """No applied delivery contains a key twice. If one does, `checks.duplicate_keys` decides between WARN and FAIL."""
    duplicates = [f"{d.ties} of delivery {d.delivery.name}" for d in candidate.deliveries if d.ties]
    return make_result(
        "duplicate_keys",
        not duplicates,
        found=f"surplus rows of equal keys: {listed(duplicates)}" if duplicates else "none",
        expected="no key twice in one delivery",
        next_step="tell the producer; the greatest values were taken. Replay and accept [duplicate_keys] to publish.",
        otherwise=Level.FAIL if settings.duplicate_keys is DuplicateKeys.FAIL else Level.WARN,
    )


def check_partition_quota(manifest: Manifest, earlier_loads: int, own_loads: int) -> CheckResult:
    """The partition modifications of the last 24 hours and those of this publish stay within BigQuery's quota.

    `earlier_loads`: the loads (`loads` in state/ledger.py) of the last 24 hours, at least one for each attempt that
    published or began to load; `own_loads`: the loads of this publish.
    """
    used = earlier_loads * len(manifest.dates)
    needed = max(own_loads, 1) * len(manifest.dates)  # without a load, the swap still modifies target's partitions
    return make_result(
        "partition_quota",
        used + needed <= PARTITION_MODIFICATIONS_PER_DAY,
        found=f"{used} in the last 24 hours, {needed} of this publish",
        expected=f"at most {PARTITION_MODIFICATIONS_PER_DAY} partition modifications in 24 hours",
        next_step="publish again when earlier loads are older than 24 hours: BigQuery refills the quota all day.",
    )


def clustering_hint(manifest: Manifest) -> str | None:
    """The warning as text; None if the table is not clustered, few row groups overlap, or their number is not known."""
    share = manifest.cluster_overlap
    if share is None or share < MIN_OVERLAP_FOR_HINT or not manifest.table.cluster_by:
        return None
    column = manifest.table.cluster_by[0]
    return (
        f"[{share:.0%}] of the files' row groups overlap in clustering column [{column}]: until BigQuery has clustered "
        f"the table again, filters on it read many blocks. Deliver files sorted by [{column}], or set "
        f"[dedup.plan: rewrite]."
    )


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
