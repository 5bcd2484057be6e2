"""Adoption: a delivery's files become a generation's, by copies inside the storage that are checked one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.adopt.orders import AdoptedDate, DateOrder, LandedPart
from dedup_spark.fan_out import FanOut


@dataclass(frozen=True)
class _Copy:
    """One file of the delivery of `snapshot_id`, and its name below the data folder."""

    day: date
    snapshot_id: int
    part: LandedPart
    path: str


@dataclass(frozen=True)
class _Copier:
    data_uri: str

    def __call__(self, copy: _Copy) -> DataFile:
        part = copy.part
        expected = storage.FrozenObject(part.generation, part.size, part.crc32c)
        storage.adopt(part.uri, storage.join(self.data_uri, copy.path), expected)
        return DataFile(copy.path, copy.day, part.rows, part.size, copy.snapshot_id, copy.snapshot_id)


def adopt_files(
    orders: Mapping[DateOrder, AdoptedDate], partition_column: str, data_uri: str, fan_out: FanOut
) -> dict[date, tuple[DataFile, ...]]:
    """Each date's copies of its newest delivery, as far as its files are adopted as they are.

    Raises DeliveryRefused when a landed object is no longer what its inventory froze.
    """
    run = uuid4().hex[:12]
    copies = [
        _Copy(
            order.day,
            order.newest.delivery.snapshot_id,
            part,
            f"{partition_column}={order.day.isoformat()}/adopted-{run}-{number:05d}.parquet",
        )
        for order, adopted in orders.items()
        for number, part in enumerate(order.newest.files)
        if part.uri not in adopted.mended
    ]
    found: defaultdict[date, list[DataFile]] = defaultdict(list)
    for file in fan_out.map(_Copier(data_uri), copies, 0, "copy adopted files"):
        found[file.date].append(file)
    return {day: tuple(files) for day, files in found.items()}
