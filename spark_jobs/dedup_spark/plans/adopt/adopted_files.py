"""Copies the newest delivery's files of a date into the new generation, inside the storage, and checks each copy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.plans.delivered_date import DeliveredFile
from dedup_spark.plans.difference.compared_date import ComparedDate

# A thread only waits, because the storage itself copies objects.
_THREADS = 8


def copy_adopted(
    task: ComparedDate, normalized_uris: frozenset[str], data_uri: str, table: TableContract, parts: PartTasks | None
) -> list[DataFile]:
    """Copy the newest delivery's files of the date, except empty files and those that were written anew (normalized).

    Return the copies. `parts`: runs the copies as Spark tasks; None to copy in this process. Raises DeliveryRefused if
    a landed object has changed since the inventory was frozen.
    """
    prefix = f"{table.partition_column}={task.day.isoformat()}/adopted-{uuid4().hex[:12]}"
    copy = _FileCopier(task.day, task.newest.delivery.snapshot_id, data_uri, prefix)
    files = enumerate(task.newest.files)
    to_copy = [(number, landed) for number, landed in files if landed.rows and landed.uri not in normalized_uris]
    if parts:
        return parts.map(copy, to_copy, "copy files", threads=_THREADS)
    if len(to_copy) == 1:  # as in most small dates, for which starting threads would take as long as the copy
        return [copy(to_copy[0])]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(copy, to_copy))


@dataclass(frozen=True)
class _FileCopier:
    """Copies one file, given with its number. If Spark repeats the task, the same object is written again."""

    day: date
    snapshot_id: int
    data_uri: str
    prefix: str

    def __call__(self, numbered_file: tuple[int, DeliveredFile]) -> DataFile:
        number, file = numbered_file
        landed = file.landed
        path = f"{self.prefix}-{number:05d}.parquet"
        expected = storage.FrozenObject(landed.generation, landed.size, landed.crc32c)
        storage.copy_frozen(landed.uri, storage.join(self.data_uri, path), expected)
        return DataFile(path, self.day, file.rows, file.size, self.snapshot_id, self.snapshot_id)
