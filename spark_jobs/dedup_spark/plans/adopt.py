"""Plan `adopt`: copies the newest delivery's files of a date if possible, and writes the rows that this delivery lacks.

A file is not copied but written anew, in the order of its rows, if it has surplus rows, which are left out, or other
types, modes or another order of columns than the job writes: a load job takes the schema of one file for all its files.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import write_file
from dedup_spark.landing.cluster_overlap import overlapping_share
from dedup_spark.plans.date_task import DateTask, WrittenDate
from dedup_spark.plans.delivered_date import DeliveredFile
from dedup_spark.plans.difference.comparison_inputs import ComparisonInputs
from dedup_spark.plans.difference.diff_result import DiffResult
from dedup_spark.plans.survivor_files import write_survivors
from dedup_spark.sketch import stored
from dedup_spark.sketch.stored import StoredSketch

# A thread only waits, because the storage itself copies objects.
_THREADS = 8


def adopt(attempt: Attempt, inputs: ComparisonInputs, diff: DiffResult, reader: KeyReader) -> WrittenDate:
    """Write the date's files and sketch below the data folder.

    Raises DeliveryRefused if a landed object has changed since the inventory was frozen.
    """
    task, source, sketch, data_uri = inputs.task, inputs.newest.source, inputs.newest_sketch, attempt.data_uri
    delivery, table = task.newest.delivery, attempt.table
    stored.write(storage.join(data_uri, stored.path_of(task.day)), StoredSketch(delivery.snapshot_id, sketch))
    survivors = write_survivors(task, diff, reader, data_uri)
    to_copy, normalized, new_files, cast_count = [], 0, [], 0
    for number, file in enumerate(task.newest.files):
        surplus = diff.surplus_in(source, number)
        if file.rows and file.has_written_schema and not len(surplus):
            to_copy.append((number, file))
        elif file.rows:
            rows = RowSource.all_rows(file.uri, file.rows, delivery.snapshot_id, excluded=surplus)
            written = write_file(table, data_uri, task.day, "normalized", read_rows(reader, rows))
            new_files += [written] if written else []  # a file may have only surplus rows
            normalized += 1
            cast_count += not file.has_written_schema
    how, surplus_rows = _how(inputs, diff, exact=attempt.exact), diff.surplus_rows(source)
    how += f"; [{surplus_rows}] surplus rows of repeated keys left out" if surplus_rows else ""
    how += f"; [{cast_count}] files brought into the written form" if cast_count else ""
    how += f"; [{normalized}] files written anew" if normalized else ""
    return WrittenDate(
        day=task.day,
        files=(*_copy(task, to_copy, reader, data_uri), *new_files, *survivors),
        new_keys=diff.new_keys,
        changed=diff.changed,
        survivors=sum(file.rows for file in survivors),
        surplus_rows={link.update_id: diff.surplus_rows(link.source) for link in inputs.links if link.source},
        how=how,
        key_fingerprint=sketch.digest(),
        examples=diff.examples(table, task.day),
        cluster_overlap=overlapping_share(file.ranges for file in task.newest.files) if table.cluster_by else None,
        adopted_delivery=delivery,
        wrote_sketch=True,
    )


def _copy(task: DateTask, files: list[tuple[int, DeliveredFile]], reader: KeyReader, data_uri: str) -> list[DataFile]:
    """Copy landed files inside the storage, and check each copy. A copy's name has its number in the delivery."""
    prefix = f"{reader.table.partition_column}={task.day.isoformat()}/adopted-{uuid4().hex[:12]}"
    snapshot_id = task.newest.delivery.snapshot_id

    def copy(numbered: tuple[int, DeliveredFile]) -> DataFile:
        number, file = numbered
        landed, path = file.landed, f"{prefix}-{number:05d}.parquet"
        expected = storage.FrozenObject(landed.generation, landed.size, landed.crc32c)
        storage.copy_frozen(landed.uri, storage.join(data_uri, path), expected)
        return DataFile(path, task.day, file.rows, file.size, snapshot_id, snapshot_id)

    if len(files) == 1:  # as in most small dates, for which starting threads would take as long as the copy
        return [copy(files[0])]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(copy, files))


def _how(inputs: ComparisonInputs, diff: DiffResult, *, exact: bool) -> str:
    """Return what was compared, for the manifest."""
    if inputs.parent is None:
        return "the parent has no row of this date"
    if exact:
        return "all rows compared, as asked for"
    if diff.differing is None:
        how = "all rows compared, because more differ than the sketches can tell"
    elif not diff.differing:
        how = "same keys and values as before"
    else:
        how = f"[{diff.differing}] differing rows {'decoded' if diff.is_decoded else 'compared'}"
    return f"{how}; sketch of the parent {'stored' if inputs.base_was_stored else 'computed'}"
