"""Contents: does the generation look like a snapshot of this feed? Judged on the manifest alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from datetime import date

from dedup_clone.checks.verdicts import Level, Verdict, listed, verdict
from dedup_clone.contract.manifest import Candidate, FileList, Manifest
from dedup_clone.settings.feed import CheckSettings, DuplicateKeys

# BigQuery: partition modifications of one table in one day.
PARTITION_MODIFICATIONS_PER_DAY = 30_000


def keys_unique(manifest: Manifest, files: FileList | None) -> Verdict:
    """The files' rows add up to the manifest's unique keys, date by date.

    An engine without files counted keys by another statement than the one that wrote staging: there `staging_rows`,
    which compares the two, is the proof.
    """
    if files is None:
        return Verdict("keys_unique", Level.PASS, f"{manifest.rows} keys counted in BigQuery", "staging_rows passes")
    rows: Counter[object] = Counter()
    for file in files.files:
        rows[file.date] += file.rows
    wrong = [str(e.date) for e in manifest.dates if rows[e.date] != e.rows] + [
        str(day) for day in rows.keys() - {e.date for e in manifest.dates}
    ]
    return verdict(
        "keys_unique",
        not wrong,
        found=f"other counts on {listed(wrong)}" if wrong else f"{manifest.rows} rows, {manifest.rows} keys",
        expected="as many rows in files as unique keys in the manifest, on every date",
        next_step="the dedup job wrote a wrong manifest: clear the run from its first task and report it.",
    )


def dates_present(manifest: Manifest, settings: CheckSettings, asked: Container[date] | None = None) -> Verdict:
    """Dates that the state has and no applied delivery brought; of those `asked` for, where a replay names some."""
    missing = [str(e.date) for e in manifest.dates if e.plan == "carried" and (asked is None or e.date in asked)]
    return verdict(
        "missing_dates",
        len(missing) <= settings.max_missing_dates,
        found=f"{len(missing)} missing: {listed(missing)}" if missing else "none missing",
        expected=f"at most {settings.max_missing_dates} missing",
        next_step="ask the producer why these dates lack; if that is right, rerun and accept [missing_dates].",
    )


def duplicates_tolerated(candidate: Candidate, settings: CheckSettings) -> Verdict:
    ties = [f"{d.ties} of delivery {d.delivery.name}" for d in candidate.deliveries if d.ties]
    return verdict(
        "duplicate_keys",
        not ties,
        found=f"surplus rows of equal keys: {listed(ties)}" if ties else "none",
        expected="no key twice in one delivery",
        next_step="tell the producer; the greatest values were taken. Rerun and accept [duplicate_keys] to publish.",
        otherwise=Level.FAIL if settings.duplicate_keys is DuplicateKeys.FAIL else Level.WARN,
    )


def quota_left(manifest: Manifest, partitions_written_today: Iterable[int]) -> Verdict:
    """Each publish modifies every partition of staging once, and target's by the clone."""
    used, needed = sum(partitions_written_today), len(manifest.dates)
    return verdict(
        "partition_quota",
        used + needed <= PARTITION_MODIFICATIONS_PER_DAY,
        found=f"{used} used today, {needed} needed",
        expected=f"at most {PARTITION_MODIFICATIONS_PER_DAY} partition modifications a day",
        next_step="wait until midnight Pacific time, when BigQuery's daily quota starts anew.",
    )
