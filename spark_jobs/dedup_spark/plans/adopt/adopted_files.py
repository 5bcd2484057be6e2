"""Copies a delivery's files into the new generation, inside the storage, and checks each copy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from uuid import uuid4

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.plans.adopt.adopt_task import AdoptedDate, AdoptOutcome, AdoptTask
from dedup_spark.plans.delivered_date import DeliveredFile
from dedup_spark.plans.rewrite.rewrite_task import RewriteOutcome


@dataclass(frozen=True)
class _Copy:
    """One file of the delivery of `snapshot_id`, and its name below the data folder."""

    day: date
    snapshot_id: int
    part: DeliveredFile
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
    tasks: Sequence[AdoptTask],
    outcomes: Mapping[date, AdoptOutcome | RewriteOutcome],
    request: DedupRequest,
    fan_out: FanOut,
) -> list[AdoptedDate]:
    """Copy the landed files that adopted dates take unchanged, and return the outcomes with these files added.

    Raises DeliveryRefused if a landed object has changed since the inventory was frozen.
    """
    run = uuid4().hex[:12]
    found = ((task, outcomes[task.day]) for task in tasks)
    adopted = [(task, outcome) for task, outcome in found if isinstance(outcome, AdoptedDate)]
    copies = [
        _Copy(
            task.day,
            task.newest.delivery.snapshot_id,
            part,
            f"{request.table.partition_column}={task.day.isoformat()}/adopted-{run}-{number:05d}.parquet",
        )
        for task, outcome in adopted
        for number, part in enumerate(task.newest.files)
        if part.uri not in outcome.normalized
    ]
    copied: defaultdict[date, list[DataFile]] = defaultdict(list)
    for file in fan_out.map(_Copier(request.data_uri), copies, 0, "copy adopted files"):
        copied[file.date].append(file)
    return [replace(outcome, files=(*copied[task.day], *outcome.files)) for task, outcome in adopted]
