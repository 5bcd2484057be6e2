"""Contents: does the generation look like a snapshot of this feed? Judged on the manifest alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dedup_clone.checks.verdicts import Level, Verdict, verdict
from dedup_clone.contract.manifest import Candidate, FileList, Manifest
from dedup_clone.settings.feed import CheckSettings, DuplicateKeys

# BigQuery: partition modifications of one table in one day.
PARTITION_MODIFICATIONS_PER_DAY = 30_000


def keys_unique(manifest: Manifest, files: FileList) -> Verdict:
    """The files' rows add up to the manifest's unique keys, date by date."""
    rows: Counter[object] = Counter()
    for file in files.files:
        rows[file.date] += file.rows
    wrong = [str(e.date) for e in manifest.dates if rows[e.date] != e.rows] + [
        str(day) for day in rows.keys() - {e.date for e in manifest.dates}
    ]
    return verdict(
        "keys_unique",
        not wrong,
        found=f"other counts on {wrong[:5]}" if wrong else f"{manifest.rows} rows, {manifest.rows} keys",
        expected="as many rows in files as unique keys in the manifest, on every date",
        next_step="the dedup job wrote a wrong manifest: clear the run from its first task and report it.",
    )


def shares(manifest: Manifest, parent: Manifest | None) -> dict[str, float]:
    """New, missing and changed rows as shares (0 to 1) of the touched dates that the parent had, by check name."""
    rows, counts = _counts(manifest, parent)
    return {check: count / rows if rows else 0.0 for check, count in counts.items()}


def _counts(manifest: Manifest, parent: Manifest | None) -> tuple[int, dict[str, int]]:
    known = {e.date for e in parent.dates} if parent else set()
    dates = [e for e in manifest.dates if e.date in known and e.plan != "carried"]
    return sum(e.rows for e in dates), {
        "new_share": sum(e.new_keys for e in dates),
        "survivor_share": sum(e.survivors for e in dates),
        "changed_share": sum(e.changed or 0 for e in dates),
    }


def shares_within_bounds(manifest: Manifest, settings: CheckSettings, parent: Manifest | None) -> list[Verdict]:
    """New, missing and changed rows of the touched dates that the parent had."""
    rows, counts = _counts(manifest, parent)
    bounds = {
        "new_share": settings.max_new_share,
        "survivor_share": settings.max_survivor_share,
        "changed_share": settings.max_changed_share,
    }
    return [
        verdict(
            check,
            counts[check] <= bound * rows,
            found=f"{counts[check]} of {rows} rows" + (f" ({counts[check] / rows:.4%})" if rows else ""),
            expected=f"at most {bound:.2%}",
            next_step=f"look at the snapshot with its producer; if it is right, rerun and accept [{check}].",
        )
        for check, bound in bounds.items()
    ]


def dates_present(manifest: Manifest, settings: CheckSettings) -> Verdict:
    """Dates that the state has and no applied delivery brought."""
    missing = [str(e.date) for e in manifest.dates if e.plan == "carried"]
    return verdict(
        "missing_dates",
        len(missing) <= settings.max_missing_dates,
        found=f"{len(missing)} missing: {missing[:5]}" if missing else "none missing",
        expected=f"at most {settings.max_missing_dates} missing",
        next_step="ask the producer why these dates lack; if that is right, rerun and accept [missing_dates].",
    )


def duplicates_tolerated(candidate: Candidate, settings: CheckSettings) -> Verdict:
    ties = {d.delivery.name: d.ties for d in candidate.deliveries if d.ties}
    return verdict(
        "duplicate_keys",
        not ties,
        found=f"surplus rows of equal keys: {ties}" if ties else "none",
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
