"""Which snapshot's rows a date has if rows that the newest snapshot lacks are deleted (`table.absent_keys: delete`).

A date then has exactly the rows of the newest snapshot that has the date, whatever the order of arrival. So a delivery
replaces all rows of a date, or none: a late one changes nothing on dates that a newer snapshot has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date

from dedup_clone.contract.manifest import DateEntry
from dedup_clone.contract.table import Absent, TableContract


def replacing_snapshots(
    table: TableContract,
    delivered: Mapping[date, Collection[int]],
    parent_dates: Mapping[date, DateEntry],
    parent_newest: int | None,
    *,
    only_some_dates: bool,
) -> dict[date, int | None]:
    """The dates of the new generation, each with the snapshot id whose rows replace it; None if it keeps its rows.

    A date of the parent that is not among them is deleted. Expired dates are in none of the arguments. `delivered`: by
    date, the ids of the applied snapshots that have it. `parent_newest`: `Manifest.newest_id` of the parent.
    `only_some_dates`: whether a replay names its dates; then no date is deleted.
    """
    kept: dict[date, int | None] = dict.fromkeys(parent_dates)
    newest = {day: max(ids) for day, ids in delivered.items()}
    if table.absent_dates is Absent.DELETE and newest:
        newest_of_all = max(newest.values())
        if parent_newest is not None and newest_of_all < parent_newest:
            return kept  # also of the dates that the table lacks, because the newest snapshot lacks them
        newest = {day: found for day, found in newest.items() if found == newest_of_all}
        kept = kept if only_some_dates else {}
    replaced = {day: found for day, found in newest.items() if not _has_newer(parent_dates.get(day), found)}
    return kept | replaced


def _has_newer(entry: DateEntry | None, snapshot_id: int) -> bool:
    """Whether the date has rows of a newer snapshot, or had some until a person erased their keys."""
    return entry is not None and snapshot_id < max(entry.max_update_id, entry.newest_snapshot or entry.max_update_id)
