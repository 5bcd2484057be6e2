"""Checks the new generation's manifest: unique keys, missing dates, duplicate keys, partition quota.

The docstring of a function `check_…` is the condition under which the check passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from datetime import date

from dedup_clone.checks.check_result import CheckResult, Level, listed, make_result
from dedup_clone.contract.manifest import Candidate, DateOutcome, FileList, Manifest
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
