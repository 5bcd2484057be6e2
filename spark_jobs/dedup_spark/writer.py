"""Writes marked rows as Parquet, one file a bucket, and counts while it writes. Runs in Spark's Python workers.

In: rows sorted by date, bucket and clustering columns. Out: one record a file. A file's name is unique to the task
attempt, and only the records of attempts that Spark accepted reach the driver: what a lost or doubled attempt wrote is
never listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from dedup_clone.contract.manifest import Difference
from dedup_clone.contract.table import TableContract
from dedup_spark.column_types import arrow_schema
from dedup_spark.marks import BUCKET
from dedup_spark.open_file import OpenFile


def column_of(difference: Difference) -> str:
    """The record's column with examples of keys that differ so."""
    return f"{difference.value}_examples"


RECORD_SCHEMA = (
    "path string, date date, rows bigint, size bigint, min_update_id bigint, max_update_id bigint, "
    "new_keys bigint, changed bigint, survivors bigint, ties array<bigint>, "
    + ", ".join(f"{column_of(difference)} array<string>" for difference in Difference)
)
_RECORD_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("date", pa.date32()),
        *[(name, pa.int64()) for name in ("rows", "size", "min_update_id", "max_update_id")],
        *[(name, pa.int64()) for name in ("new_keys", "changed", "survivors")],
        ("ties", pa.list_(pa.int64())),
        *[(column_of(difference), pa.list_(pa.string())) for difference in Difference],
    ]
)


@dataclass(frozen=True)
class Writer:
    """`newest_source` names for each date the last applied delivery that has it: rows it lacks are survivors.

    `finished` is told each date and bucket whose file is written.
    """

    table: TableContract
    data_uri: str
    newest_source: dict[date, int]
    sources: int
    finished: Callable[[date, int], None]

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(self.table.columns)
        context = TaskContext.get()
        name = f"part-{context.partitionId() if context else 0:05d}-{uuid4().hex[:12]}"
        slot: tuple[date, int] | None = None
        file: OpenFile | None = None
        records: list[dict[str, Any]] = []
        for batch in batches:
            for found, rows in _runs(batch, self.table.partition_column):
                if found != slot or file is None:
                    if slot and file:
                        records.append(self._close(file, slot))
                    slot = found
                    file = self._open(slot[0], f"{name}-{len(records):04d}.parquet", schema)
                file.add(rows)
        if slot and file:
            records.append(self._close(file, slot))
        if records:
            yield from pa.Table.from_pylist(records, schema=_RECORD_ARROW).to_batches()

    def _open(self, day: date, name: str, schema: pa.Schema) -> OpenFile:
        path = f"{self.table.partition_column}={day.isoformat()}/{name}"
        return OpenFile(self.data_uri, path, schema, self.table, self.newest_source[day], self.sources)

    def _close(self, file: OpenFile, slot: tuple[date, int]) -> dict[str, Any]:
        record = file.close()
        self.finished(*slot)
        examples = {column_of(difference): keys for difference, keys in file.examples.items()}
        return {"date": slot[0], **record, **examples}


def _runs(batch: pa.RecordBatch, partition_column: str) -> Iterator[tuple[tuple[date, int], pa.RecordBatch]]:
    """The batch cut where date or bucket change."""
    if not batch.num_rows:
        return
    days = batch.column(partition_column)
    numbers = days.cast(pa.int32()).to_numpy()
    buckets = batch.column(BUCKET).to_numpy()
    cuts = np.flatnonzero((np.diff(numbers) != 0) | (np.diff(buckets) != 0)) + 1
    for start, end in zip([0, *cuts], [*cuts, batch.num_rows], strict=True):
        yield (days[start].as_py(), int(buckets[start])), batch.slice(start, end - start)
