"""Writes the changes of a generation: chooses the dates to compare, by what the plans counted, and compares them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile, DateEntry
from dedup_clone.contract.request import DedupRequest, RequestedChanges
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.candidate.new_manifest import NewGeneration
from dedup_spark.changes.change_files import ChangesTask, WriteChanges
from dedup_spark.changes.row_changes import RowsOfDate
from dedup_spark.execution.date_fan_out import largest_first, map_dates
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.seed import read_seed
from dedup_spark.parent import Parent


def write_changes(
    request: DedupRequest,
    changes: RequestedChanges,
    generation: NewGeneration,
    parent: Parent,
    applied: Sequence[Delivery],
    run_id: str,
    session: SessionSource,
) -> tuple[DataFile, ...]:
    """Write the rows by which the generation differs from its parent, below a folder of this run in the changes folder.

    The paths of the returned files begin with the run's folder.
    """
    ids = parent.snapshot_ids | {delivery.snapshot_id for delivery in applied}
    shows_newest = ids if request.update_id_mode is UpdateIdMode.LAST_SEEN else frozenset()
    files: defaultdict[date, list[DataFile]] = defaultdict(list)
    for file in generation.files:
        files[file.date].append(file)
    tasks = []
    for entry in generation.dates:
        before = parent.of(entry.date)
        if entry.date in generation.copied or _is_same(request, entry, before.entry if before else None):
            continue
        new = files[entry.date]
        uris = [storage.join(request.data_uri, file.path) for file in new]
        old = None if before is None else _rows([before.uri(f) for f in before.files], before.entry, shows_newest)
        size = sum(file.size for file in new) + (before.bytes if before else 0)
        tasks.append(ChangesTask(entry.date, size, _rows(uris, entry, shows_newest), old))
    if not tasks:
        return ()
    included = request.included_with(tuple(applied))
    snapshot_id = included[-1].snapshot_id if included else max(ids)
    seed, uri = read_seed(request.fingerprint_seed_uri), storage.join(changes.uri, f"{run_id}/")
    work = WriteChanges.of(request, uri, changes.publish_day, seed, snapshot_id)
    written = map_dates(session, work, largest_first(tasks), "write changes")
    return tuple(replace(file, path=f"{run_id}/{file.path}") for found in written for file in found)


def _rows(uris: Sequence[str], entry: DateEntry, shows_newest: frozenset[int]) -> RowsOfDate:
    """`shows_newest`: the ids of snapshots that contain all rows with that update id."""
    return RowsOfDate(tuple(uris), entry.rows, entry.max_update_id if entry.max_update_id in shows_newest else None)


def _is_same(request: DedupRequest, entry: DateEntry, before: DateEntry | None) -> bool:
    """Whether the counts say that the date has no change. In mode last_changed, an update id may differ all the same.

    While a snapshot lacks keys, others may go missing or come back.
    """
    if before is None or request.update_id_mode is UpdateIdMode.LAST_CHANGED:
        return False
    return entry.changed == 0 and not (entry.new_keys or entry.survivors or before.survivors)
