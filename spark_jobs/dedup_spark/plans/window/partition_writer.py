"""Writes the ranked rows of plan `window` as Parquet, and counts them. Runs in Spark's Python workers.

The rows are sorted by date, output file and clustering columns. The result is one record for each file. Each attempt of
a Spark task writes files with unique names, and only records of attempts that Spark accepts reach the driver, so the
files of lost or repeated attempts are in no manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from dedup_spark.plans.window.counting_file import CountingFile
from dedup_spark.plans.window.helper_columns import DESTINATION_FILE


def examples_column(difference: Difference) -> str:
    """Return the name of the record's column with examples of keys of this difference."""
    return f"{difference.value}_examples"


RECORD_SCHEMA = (
    "path string, date date, rows bigint, size bigint, min_update_id bigint, max_update_id bigint, "
    "new_keys bigint, changed bigint, survivors bigint, surplus_rows array<bigint>, "
    + ", ".join(f"{examples_column(difference)} array<string>" for difference in Difference)
)
_RECORD_ARROW = pa.schema(
    [
        ("path", pa.string()),
        ("date", pa.date32()),
        *[(name, pa.int64()) for name in ("rows", "size", "min_update_id", "max_update_id")],
        *[(name, pa.int64()) for name in ("new_keys", "changed", "survivors")],
        ("surplus_rows", pa.list_(pa.int64())),
        *[(examples_column(difference), pa.list_(pa.string())) for difference in Difference],
    ]
)


@dataclass(frozen=True)
class PartitionWriter:
    """Writes the rows of Spark tasks. `newest_source`: for each date the highest number of a source that has it.

    `delivery_count`: the number of applied deliveries.
    """

    table: TableContract
    data_uri: str
    newest_source: dict[date, int]
    delivery_count: int

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one task. Yield the records of its files, which have RECORD_SCHEMA."""
        schema = arrow_schema(self.table.columns)
        context = TaskContext.get()
        name = f"part-{context.partitionId() if context else 0:05d}-{uuid4().hex[:12]}"
        current: tuple[date, int] | None = None
        file: CountingFile | None = None
        records: list[dict[str, Any]] = []
        for batch in batches:
            for output_file, rows in _split(batch, self.table.partition_column):
                if output_file != current or file is None:
                    if current and file:
                        records.append(self._close(file, current))
                    current = output_file
                    file = self._open(current[0], f"{name}-{len(records):04d}.parquet", schema)
                file.add(rows)
        if current and file:
            records.append(self._close(file, current))
        if records:
            yield from pa.Table.from_pylist(records, schema=_RECORD_ARROW).to_batches()

    def _open(self, day: date, name: str, schema: pa.Schema) -> CountingFile:
        path = f"{self.table.partition_column}={day.isoformat()}/{name}"
        return CountingFile(self.data_uri, path, schema, self.table, self.newest_source[day], self.delivery_count)

    def _close(self, file: CountingFile, output_file: tuple[date, int]) -> dict[str, Any]:
        record = file.close()
        examples = {examples_column(difference): keys for difference, keys in file.examples.items()}
        return {"date": output_file[0], **record, **examples}


def _split(batch: pa.RecordBatch, partition_column: str) -> Iterator[tuple[tuple[date, int], pa.RecordBatch]]:
    """Yield, for each output file in the batch, its date and number, and its rows."""
    if not batch.num_rows:
        return
    days = batch.column(partition_column)
    day_numbers = days.cast(pa.int32()).to_numpy()
    files = batch.column(DESTINATION_FILE).to_numpy()
    cuts = np.flatnonzero((np.diff(day_numbers) != 0) | (np.diff(files) != 0)) + 1
    for start, end in zip([0, *cuts], [*cuts, batch.num_rows], strict=True):
        yield (days[start].as_py(), int(files[start])), batch.slice(start, end - start)
