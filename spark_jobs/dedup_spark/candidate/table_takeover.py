"""Takes over the rows of an existing table (bootstrap) or of a copy of the live one (rebuild), exported to files.

The job handles the exported files like a delivery, but the rows keep their update ids. A table with duplicate keys is
refused, unless the attempt says to keep the latest rows.
"""

from __future__ import annotations

from dataclasses import replace

from dedup_clone.contract.attempt import Attempt, Duplicates
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DateEntry, RefusedDelivery
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.candidate.new_manifest import NewGeneration

_MAX_NAMED_DATES = 5


def refuse_duplicates(attempt: Attempt, delivery: Delivery, generation: NewGeneration) -> RefusedDelivery | None:
    """Return the refusal of a table that has duplicate keys; None if the table can be taken over.

    The attempt's `takes_over` says what to do about duplicate keys. No key is named, because the reason stays in logs
    even after the key is erased.
    """
    duplicated = sorted((e for e in generation.dates if e.ties), key=lambda e: (-e.ties, e.date))
    if not duplicated or attempt.takes_over is not Duplicates.REFUSE:
        return None
    named = ", ".join(f"{e.date}: {e.ties}" for e in duplicated[:_MAX_NAMED_DATES])
    more = f", and {len(duplicated) - _MAX_NAMED_DATES} more dates" if len(duplicated) > _MAX_NAMED_DATES else ""
    reason = (
        f"The existing table cannot become feed [{attempt.feed}]: it has [{sum(e.ties for e in duplicated)}] surplus "
        f"rows of keys ({', '.join(attempt.table.keys)}) that occur more than once, on [{len(duplicated)}] dates "
        f"({named}{more}). "
        f"Nothing was changed. Next: list them with the query in docs/feeds.md and delete the surplus rows, or "
        f"trigger the DAG again with duplicates [{Duplicates.KEEP_LATEST}]: of each key it keeps the row with the "
        f"highest {attempt.table.snapshot_id_column}; if several rows have it, the one with the greatest values."
    )
    return RefusedDelivery(delivery, reason)


def as_taken_over(attempt: Attempt, generation: NewGeneration) -> NewGeneration:
    """Return the generation with what its rows' own update ids mean for the dates.

    A date of a rebuild keeps its newest snapshot. In mode last_seen, a date whose rows have several update ids loses
    its sketch, which covers all its rows. In mode last_changed this is what the next publish needs: the sketch of
    the date's last delivery, and the table counts as that delivery. In mode last_seen the next publish needs the
    sketch of only those rows that have the date's highest update id.
    """
    dates = tuple(replace(e, newest_snapshot=attempt.newest_snapshots.get(e.date)) for e in generation.dates)
    if attempt.update_id_mode is not UpdateIdMode.LAST_CHANGED:
        dates = tuple(map(_without_mixed_fingerprint, dates))
    return replace(generation, dates=dates)


def _without_mixed_fingerprint(entry: DateEntry) -> DateEntry:
    has_one_id = entry.min_update_id == entry.max_update_id
    return entry if has_one_id else replace(entry, key_fingerprint=None)
