"""Writes the changes of a generation: compares each date with the parent, unless the plan's counts show no change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DataFile, DateEntry
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.candidate.new_manifest import NewGeneration
from dedup_spark.changes.change_files import ChangesTask, WriteChanges
from dedup_spark.changes.row_comparison import RowsOfDate
from dedup_spark.execution.date_fan_out import largest_first, map_dates
from dedup_spark.execution.job_log import JobLog
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.seed import read_seed
from dedup_spark.parent import Parent


def write_changes(
    attempt: Attempt,
    generation: NewGeneration,
    parent: Parent,
    applied: Sequence[Delivery],
    run_id: str,
    session: SessionSource,
    job_log: JobLog,
) -> tuple[DataFile, ...]:
    """Write the rows by which the generation differs from its parent, below this run's folder in the changes folder.

    Return the records of the written files; their paths begin with the run's folder. `run_id`: the id of this run of
    the Spark job, which names its folder.
    """
    files: defaultdict[date, list[DataFile]] = defaultdict(list)
    for file in generation.files:
        files[file.date].append(file)
    tasks = []
    for entry in generation.dates:
        parent_date = parent.on_date(entry.date)
        parent_entry = parent_date.entry if parent_date else None
        if entry.date in generation.copied or _has_no_change(attempt, entry, parent_entry):
            continue
        new = files[entry.date]
        uris = [storage.join(attempt.data_uri, file.path) for file in new]
        old, size = None, sum(file.size for file in new)
        if parent_date:
            old = _rows([parent_date.uri(file) for file in parent_date.files], parent_date.entry)
            size += parent_date.bytes
        tasks.append(ChangesTask(entry.date, size, _rows(uris, entry), old))
    if not tasks:
        return ()
    included = attempt.included_deliveries(tuple(applied))
    snapshot_id = included[-1].snapshot_id if included else max(entry.max_update_id for entry in generation.dates)
    seed, uri = read_seed(attempt.seed_uri), storage.join(attempt.changes_uri, f"{run_id}/")
    work = WriteChanges.from_attempt(attempt, uri, attempt.taken_at.date(), seed, snapshot_id)
    job_log.expect_dates(len(tasks))
    with job_log.dates_at_work(len(tasks)):
        written = map_dates(session, work, largest_first(tasks), "write changes")
    return tuple(replace(file, path=f"{run_id}/{file.path}") for date_files in written for file in date_files)


def _rows(uris: Sequence[str], entry: DateEntry) -> RowsOfDate:
    """The date's rows in these files."""
    return RowsOfDate(tuple(uris), entry.rows, entry.newest_snapshot)


def _has_no_change(attempt: Attempt, entry: DateEntry, parent_entry: DateEntry | None) -> bool:
    """Whether the plan's counts and the ranges of update ids prove that the date has no change.

    They prove nothing in mode last_changed, in which a row may differ by its update id alone, and nothing on a date
    whose newest snapshot lacks keys, before the publish or after it.
    """
    if parent_entry is None or attempt.update_id_mode is UpdateIdMode.LAST_CHANGED:
        return False
    is_whole = all(e.newest_snapshot in (None, e.min_update_id) for e in (entry, parent_entry))
    return entry.changed == 0 and not entry.new_keys and is_whole
