"""Adoption: a delivery's files become a generation's, by copies inside the storage that are checked one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.adopt.orders import DateOrder, LandedPart

# Copies wait for the storage, not for this machine.
_THREADS = 8


def adopt_files(order: DateOrder, partition_column: str, data_uri: str) -> list[DataFile]:
    """Raises DeliveryRefused when a landed object is no longer what its inventory froze."""
    run = uuid4().hex[:12]

    def copy(numbered: tuple[int, LandedPart]) -> DataFile:
        number, part = numbered
        path = f"{partition_column}={order.day.isoformat()}/adopted-{run}-{number:05d}.parquet"
        expected = storage.FrozenObject(part.generation, part.size, part.crc32c)
        storage.adopt(part.uri, storage.join(data_uri, path), expected)
        snapshot_id = order.newest.delivery.snapshot_id
        return DataFile(path, order.day, part.rows, part.size, snapshot_id, snapshot_id)

    parts = list(enumerate(order.newest.files))
    if len(parts) == 1:
        return [copy(parts[0])]
    with ThreadPoolExecutor(min(_THREADS, max(1, len(parts)))) as pool:
        return list(pool.map(copy, parts))
