"""Copies the newest delivery's files of a date into the new generation, inside the storage, and checks each copy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.plans.delivered_date import DeliveredFile
from dedup_spark.plans.difference.compared_date import ComparedDate

# A thread only waits, because the storage itself copies objects.
_THREADS = 8


def copy_adopted(
    task: ComparedDate, normalized_uris: frozenset[str], data_uri: str, table: TableContract
) -> list[DataFile]:
    """Copy the newest delivery's files of the date, except empty files and those that were written anew (normalized).

    Return the copies. Raises DeliveryRefused if a landed object has changed since the inventory was frozen.
    """
    prefix = f"{table.partition_column}={task.day.isoformat()}/adopted-{uuid4().hex[:12]}"
    snapshot_id = task.newest.delivery.snapshot_id

    def copy(number: int, file: DeliveredFile) -> DataFile:
        landed, path = file.landed, f"{prefix}-{number:05d}.parquet"
        expected = storage.FrozenObject(landed.generation, landed.size, landed.crc32c)
        storage.copy_frozen(landed.uri, storage.join(data_uri, path), expected)
        return DataFile(path, task.day, file.rows, file.size, snapshot_id, snapshot_id)

    files = [file for file in task.newest.files if file.rows and file.uri not in normalized_uris]
    if len(files) == 1:  # as in most small dates, for which starting threads would take as long as the copy
        return [copy(0, files[0])]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(copy, range(len(files)), files))
