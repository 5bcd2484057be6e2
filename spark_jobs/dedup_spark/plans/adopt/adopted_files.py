"""Copies a delivery's files into the new generation, inside the storage, and checks each copy."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.delivered_date import DeliveredFile

# The storage copies by itself: a thread only waits for its answer.
_THREADS = 8


def copy_adopted(task: AdoptTask, normalized: frozenset[str], data_uri: str, table: TableContract) -> list[DataFile]:
    """Copy the newest delivery's files of the date, without empty ones and those with `normalized` URIs.

    Raises DeliveryRefused if a landed object has changed since the inventory was frozen.
    """
    run, snapshot_id = uuid4().hex[:12], task.newest.delivery.snapshot_id

    def copy(numbered: tuple[int, DeliveredFile]) -> DataFile:
        number, landed = numbered
        path = f"{table.partition_column}={task.day.isoformat()}/adopted-{run}-{number:05d}.parquet"
        expected = storage.FrozenObject(landed.generation, landed.size, landed.crc32c)
        storage.adopt(landed.uri, storage.join(data_uri, path), expected)
        return DataFile(path, task.day, landed.rows, landed.size, snapshot_id, snapshot_id)

    files = enumerate(task.newest.files)
    to_copy = [(number, landed) for number, landed in files if landed.rows and landed.uri not in normalized]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(copy, to_copy))
