"""Writes the files of a date by plan `adopt` or `rewrite`, and the sketch with which the next publish compares.

Adopt copies the newest delivery's files, and writes the rows that this delivery lacks. A file is not copied but written
anew, in the order of its rows, if it has surplus rows, which are left out, or other types, modes or another order of
columns than the job writes: a load job takes the schema of one file for all its files.

Rewrite streams the rows of the date, and writes them sorted into files of a target size, without a shuffle.

Files of the parent that need no change are kept: they are only named here, and copied once all dates are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from uuid import uuid4

from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import write_file, write_sorted
from dedup_spark.landing.cluster_overlap import overlapping_share
from dedup_spark.parent import PARENT_SOURCE
from dedup_spark.plans.date_task import DateTask, MergePolicy, WrittenDate
from dedup_spark.plans.delivered_date import DeliveredFile
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs
from dedup_spark.plans.difference.diff_result import DiffResult
from dedup_spark.plans.survivor_files import added_sources, survivor_sources, write_survivors
from dedup_spark.sketch import stored

# A thread only waits, because the storage itself copies objects.
_THREADS = 8


class _Files(NamedTuple):
    """The files of a date. `how`: how they were made, for the manifest."""

    files: tuple[DataFile, ...]
    cluster_overlap: float | None
    how: list[str]


def write_date(
    attempt: Attempt, file_bytes: int, inputs: ComparisonInputs, diff: DiffResult, reader: KeyReader
) -> WrittenDate:
    """Write the date's files and its sketch below the data folder. `file_bytes`: the target size of a rewritten file.

    Raises DeliveryRefused if a landed object has changed since the inventory was frozen.
    """
    task, newest = inputs.task, inputs.task.newest
    if task.is_adopted:
        made = _adopt(attempt, inputs, diff, reader)
    else:
        made = _rewrite(attempt, file_bytes, inputs, diff, reader)
    rows, sketch = sum(file.rows for file in made.files), _sketch_for_next(inputs, made.files)
    if sketch:
        stored.write(storage.join(attempt.data_uri, stored.path_of(task.day)), sketch)
    return WrittenDate(
        day=task.day,
        files=made.files,
        new_keys=diff.new_keys,
        changed=diff.changed,
        survivors=rows - (newest.rows - diff.surplus_rows(inputs.newest.source)),
        surplus_rows={link.update_id: diff.surplus_rows(link.source) for link in inputs.links if link.source},
        how="; ".join((_compared(inputs, diff, exact=attempt.exact), *made.how)),
        key_fingerprint=sketch.sketch.digest() if sketch else None,
        examples=diff.examples(attempt.table, task.day),
        cluster_overlap=made.cluster_overlap,
        adopted_delivery=newest.delivery if task.is_adopted else None,
    )


def _adopt(attempt: Attempt, inputs: ComparisonInputs, diff: DiffResult, reader: KeyReader) -> _Files:
    task, table, source = inputs.task, attempt.table, inputs.newest.source
    survivors = write_survivors(task, diff, reader, attempt.data_uri)
    to_copy, normalized, new_files, cast_count = [], 0, [], 0
    for number, file in enumerate(task.newest.files):
        surplus = diff.surplus_in(source, number)
        if file.rows and file.found.has_written_schema and not len(surplus):
            to_copy.append((number, file))
        elif file.rows:
            rows = RowSource.all_rows(file.uri, file.rows, excluded=surplus)
            written = write_file(table, attempt.data_uri, task.day, "normalized", read_rows(reader, rows))
            new_files += [written] if written else []  # a file may have only surplus rows
            normalized += 1
            cast_count += not file.found.has_written_schema
    surplus_rows = diff.surplus_rows(source)
    how = [f"[{surplus_rows}] surplus rows of repeated keys left out"] if surplus_rows else []
    how += [f"[{cast_count}] files brought into the written form"] if cast_count else []
    how += [f"[{normalized}] files written anew"] if normalized else []
    overlap = overlapping_share(file.found.ranges for file in task.newest.files) if table.cluster_by else None
    return _Files((*_copy(attempt, task, to_copy), *new_files, *survivors), overlap, how)


def _copy(attempt: Attempt, task: DateTask, files: list[tuple[int, DeliveredFile]]) -> list[DataFile]:
    """Copy landed files inside the storage, and check each copy. A copy's name has its number in the delivery."""
    prefix = f"{attempt.table.date_folder}={task.day.isoformat()}/adopted-{uuid4().hex[:12]}"
    snapshot_id = task.newest.delivery.snapshot_id

    def copy(numbered: tuple[int, DeliveredFile]) -> DataFile:
        number, file = numbered
        landed, path = file.landed, f"{prefix}-{number:05d}.parquet"
        target_uri = storage.join(attempt.data_uri, path)
        storage.copy_frozen(landed.uri, target_uri, landed.generation, landed.size, landed.crc32c)
        return DataFile(path, task.day, file.rows, file.size, snapshot_id, snapshot_id)

    if len(files) == 1:  # as in most small dates, for which starting threads would take as long as the copy
        return [copy(files[0])]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(copy, files))


def _rewrite(
    attempt: Attempt, file_bytes: int, inputs: ComparisonInputs, diff: DiffResult, reader: KeyReader
) -> _Files:
    """Write what the delivery changes. The parent's files are kept if no key or value changed in mode last_changed."""
    task, parent = inputs.task, inputs.task.parent
    if parent and task.policy is MergePolicy.BY_VALUE and not diff.new_keys and not diff.removed:
        return _Files(parent.files, parent.entry.cluster_overlap, ["no row changed, so the parent's files are kept"])
    kept: list[DataFile] = []
    if parent and task.policy is MergePolicy.LATE and attempt.plan is not Plan.REWRITE:  # most files stay as they are
        kept = [file for number, file in enumerate(parent.files) if not len(diff.removed_in(number))]
    written, overlap = _write_sorted(attempt, file_bytes, task, diff, reader, kept)
    return _Files((*kept, *written), overlap, [])


def _write_sorted(
    attempt: Attempt, file_bytes: int, task: DateTask, diff: DiffResult, reader: KeyReader, kept: Sequence[DataFile]
) -> tuple[tuple[DataFile, ...], float | None]:
    """Write the rows of the date, except those in `kept` files. Return the new files and `cluster_overlap`.

    The overlap is None if files are kept, because these were not read. Delivered rows are written first: usually
    they are few, and one sorted run has all of them.
    """
    sources, as_they_are = [], set(kept)
    if task.policy is MergePolicy.IN_ORDER:
        for number, landed in enumerate(task.newest.files):
            surplus = diff.surplus_in(PARENT_SOURCE + 1, number)
            sources.append(RowSource.all_rows(landed.uri, landed.rows, excluded=surplus))
        sources += survivor_sources(task, diff, attempt.table)
    else:
        sources += added_sources(task, diff)
        for number, file in enumerate(task.parent.files if task.parent else ()):
            if task.parent and file not in as_they_are:
                uri, removed = task.parent.uri(file), diff.removed_in(number)
                sources.append(RowSource.all_rows(uri, file.rows, excluded=removed))
    rows = (table for source in sources for table in read_rows(reader, source))
    files, overlap = write_sorted(attempt.table, attempt.data_uri, task.day, "rewritten", rows, file_bytes)
    return files, None if kept else overlap


def _sketch_for_next(inputs: ComparisonInputs, files: Sequence[DataFile]) -> stored.StoredSketch | None:
    """Return the sketch that the next publish compares with. None after a late delivery if sketches do not count.

    `StoredSketch` says of which rows. `files`: those of the date.
    """
    if inputs.parent and inputs.task.policy is MergePolicy.LATE:  # rows with the highest update_id stay the same
        return stored.StoredSketch(inputs.parent.update_id, inputs.parent.sketch) if inputs.parent.sketch else None
    # Without a parent, rows may come from an existing table, with update_ids of their own.
    newest_id = inputs.newest.update_id if inputs.parent else max(file.max_update_id for file in files)
    return stored.StoredSketch(newest_id, inputs.newest_sketch)


def _compared(inputs: ComparisonInputs, diff: DiffResult, *, exact: bool) -> str:
    """What was compared, for the manifest."""
    if inputs.parent is None:
        return "the parent has no row of this date"
    if exact:
        return "all rows compared, as asked for"
    if inputs.parent.sketch is None:
        return "all rows compared, because no sketch tells how the delivery differs"
    if diff.differing is None:
        how = "all rows compared, because more differ than the sketches can tell"
    elif not diff.differing:
        how = "same keys and values as in the last snapshot"
    else:
        how = f"[{diff.differing}] differing rows {'decoded' if diff.is_decoded else 'compared'}"
    return f"{how}; sketch of the parent {'stored' if inputs.base_was_stored else 'computed'}"
