"""Checks a new generation's rows by its manifest: keys, dates, duplicates, and shares of new, missing and changed rows.

These checks stop a snapshot that is complete and well-formed but wrong. No other check notices such a snapshot.

The docstring of a function `check_…` is the condition under which the check passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import median

from dedup_clone.checks.check_result import CheckResult, Level, listed, make_result
from dedup_clone.contract.manifest import Candidate, DateOutcome, Difference, FileList, KeyExample, Manifest
from dedup_clone.contract.table import Absent, PartitionBy
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
    """The applied deliveries lack at most `checks.max_missing_dates` of the dates of generation and parent.

    `replayed`: the dates of a replay that names dates: only these are examined. None for every other publish. If
    all its deliveries are older than the table's newest snapshot, none is missing: dates may have come after them.
    """
    is_late = max((d.snapshot_id for d in manifest.applied), default=manifest.snapshot_id) < manifest.snapshot_id
    examined = {e.date for e in manifest.dates if not is_late} if replayed is None else replayed
    missing = [
        str(e.date) for e in manifest.dates if e.rows and e.plan == DateOutcome.COPIED_FORWARD and e.date in examined
    ] + [f"{day} (its {rows} rows are deleted)" for day, rows in manifest.deleted_dates.items()]
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
    partitions = len({manifest.table.partition_start(entry.date) for entry in manifest.dates})
    partitions *= 24 if manifest.table.partition_by is PartitionBy.HOUR else 1
    used = earlier_loads * partitions
    needed = max(own_loads, 1) * partitions  # without a load, the swap still modifies target's partitions
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
TOLERATED_SHARE = 0.01  # a share below this is not compared with its median
DATES_SHOWN = EXAMPLES_SHOWN = 3  # dates and keys that a failed check shows
# Dates with these outcomes do not count, because no applied delivery has them.
_NOT_COMPARED = (DateOutcome.COPIED_FORWARD, DateOutcome.RESTORED, DateOutcome.ERASED)


@dataclass(frozen=True)
class _RowShare:
    """How many rows differ in one way from the parent's. Only dates count that both it and an applied delivery have.

    `check`: the name of the check. `description`: what messages call these rows. `counts`: how many there are, by date,
    without the dates whose plan did not count them. `rows`: the number of all rows of each compared date; of deleted
    rows, the parent's.
    """

    check: str
    difference: Difference
    description: str
    counts: dict[date, int]
    rows: dict[date, int]

    @property
    def share(self) -> float | None:
        """The counted rows as a share of all rows of their dates. 0 without compared dates; None if no date counts."""
        if self.rows and not self.counts:
            return None
        total = sum(self.rows[day] for day in self.counts)
        return sum(self.counts.values()) / total if total else 0.0

    @property
    def found(self) -> str:
        """The evidence."""
        if self.share is None:
            return f"not compared: no plan of this publish counted {self.description} rows"
        total = sum(self.rows[day] for day in self.counts)
        text = f"{sum(self.counts.values())} of {total} rows {self.description} ({self.share:.4%})"
        uncounted = len(self.rows) - len(self.counts)
        return f"{text}; not compared on {uncounted} of {len(self.rows)} dates" if uncounted else text

    @property
    def most_affected(self) -> list[date]:
        return sorted(filter(self.counts.get, self.counts), key=lambda day: (-self.counts[day], day))[:DATES_SHOWN]


def _row_shares(manifest: Manifest, parent: Manifest | None) -> tuple[_RowShare, ...]:
    before = {entry.date: entry for entry in parent.dates_with_rows} if parent else {}
    compared = [entry for entry in manifest.dates if entry.date in before and entry.plan not in _NOT_COMPARED]
    rows = {entry.date: entry.rows for entry in compared}
    new = {entry.date: entry.new_keys for entry in compared}
    # Every later generation counts a survivor again, so the parent's survivors are subtracted.
    survivors = {entry.date: max(0, entry.survivors - before[entry.date].survivors) for entry in compared}
    changed = {entry.date: entry.changed for entry in compared if entry.changed is not None}
    missing = _RowShare("survivor_share", Difference.SURVIVOR, "missing for the first time", survivors, rows)
    if manifest.table.absent_keys is Absent.DELETE:
        deleted = {entry.date: entry.deleted for entry in compared}
        former = {entry.date: before[entry.date].rows for entry in compared}
        missing = _RowShare("deleted_share", Difference.SURVIVOR, "deleted", deleted, former)
    return (
        _RowShare("new_share", Difference.NEW, "new", new, rows),
        missing,
        _RowShare("changed_share", Difference.CHANGED, "changed", changed, rows),
    )


def shares(manifest: Manifest, parent: Manifest | None) -> dict[str, float]:
    """The share (0 to 1) of new, missing or deleted, and changed rows, by check; absent if no plan counted them."""
    return {one.check: one.share for one in _row_shares(manifest, parent) if one.share is not None}


def check_shares(
    manifest: Manifest,
    settings: CheckSettings,
    parent: Manifest | None,
    history: Sequence[dict[str, float]],
    examples: Collection[KeyExample],
) -> list[CheckResult]:
    """Each share is at most its configured limit, and at most `max_times_usual` times its median in earlier publishes.

    The second limit is at least TOLERATED_SHARE. It applies only if `max_times_usual` is set, and only after
    PUBLISHES_FOR_MEDIAN publishes. Returns one result for each share; a share that no plan counted passes. `history`:
    the shares of the earlier publishes for which `has_usual_shares` is true (state/ledger.py). `examples`: keys of rows
    that differ; a failed check shows some of them, and names the dates with the most such rows.
    """
    return [_check_share(one, manifest, settings, history, examples) for one in _row_shares(manifest, parent)]


def _check_share(
    found: _RowShare,
    manifest: Manifest,
    settings: CheckSettings,
    history: Sequence[dict[str, float]],
    examples: Collection[KeyExample],
) -> CheckResult:
    setting = f"max_{found.check}"
    limit: float = getattr(settings, setting)
    expected = f"at most {limit:.2%} {'as configured' if setting in settings.model_fields_set else 'by default'}"
    earlier = [publish[found.check] for publish in history if found.check in publish]
    if settings.max_times_usual is not None and len(earlier) >= PUBLISHES_FOR_MEDIAN:
        usual = max(settings.max_times_usual * median(earlier), TOLERATED_SHARE)
        limit = min(limit, usual)
        expected += (
            f" and {usual:.2%} as usual (the last {len(earlier)} publishes had {median(earlier):.4%} in the median)"
        )
    passed, days = found.share is None or found.share <= limit, found.most_affected
    affected = ", ".join(f"{day}: {found.counts[day]} of {found.rows[day]}" for day in days)
    deliveries = listed([f"[{delivery.name}]" for delivery in manifest.applied], between=" and ")
    return make_result(
        found.check,
        passed,
        found=found.found if passed else f"{found.found}; most on {affected}; of delivery {deliveries}",
        expected=expected,
        next_step=f"look at the snapshot with its producer; if it is right, replay and accept [{found.check}].",
        examples=[e.key for day in days for e in examples if e.date == day and e.difference is found.difference][
            :EXAMPLES_SHOWN
        ],
    )
