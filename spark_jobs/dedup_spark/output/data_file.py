"""Writes one Parquet data file of a date from Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema

_MAX_ROW_GROUP_ROWS = 1 << 20
# `row_groups` yields the rows collected so far once they have reached one of these limits.
_MAX_PENDING_ROWS = 1 << 20
_MAX_PENDING_BYTES = 64 << 20


class DataFileWriter:
    """Writes one file. Its name is `name_prefix` and a unique suffix, so a repeated Spark task writes another file."""

    def __init__(self, table: TableContract, data_uri: str, day: date, name_prefix: str) -> None:
        self._path = f"{table.partition_column}={day.isoformat()}/{name_prefix}-{uuid4().hex[:12]}.parquet"
        self._day = day
        self._id_column = table.snapshot_id_column
        self._rows = 0
        self._id_bounds: list[int] = []
        self._stream = storage.open_output(storage.join(data_uri, self._path))
        self._parquet = pq.ParquetWriter(
            self._stream, arrow_schema(table.columns), compression="zstd", store_schema=False
        )

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return int(self._stream.tell())

    def write(self, rows: pa.Table) -> None:
        """Write `rows`, which have the table's Arrow schema, as row groups of their own."""
        self._parquet.write_table(rows, row_group_size=_MAX_ROW_GROUP_ROWS)
        bounds = pc.min_max(rows[self._id_column])
        self._id_bounds += [bounds["min"].as_py(), bounds["max"].as_py()]
        self._rows += rows.num_rows

    def close(self) -> DataFile:
        """Finish the file and return its record. At least one row must have been written."""
        self._parquet.close()
        size = self.size
        self._stream.close()
        return DataFile(self._path, self._day, self._rows, size, min(self._id_bounds), max(self._id_bounds))


def row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield the rows of `tables`, regrouped into tables large enough for a row group; the last one may be smaller."""
    pending = TableBuffer(_MAX_PENDING_ROWS, _MAX_PENDING_BYTES)
    for table in tables:
        pending.add(table)
        if pending.is_full:
            yield pending.take()
    if pending:
        yield pending.take()


@dataclass
class TableBuffer:
    """Collects Arrow tables. The buffer is full once they have `max_rows` or `max_bytes` together."""

    max_rows: int
    max_bytes: int
    _tables: list[pa.Table] = field(default_factory=list)
    _rows: int = 0
    _bytes: int = 0

    def add(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._rows += table.num_rows
        self._bytes += table.nbytes

    @property
    def is_full(self) -> bool:
        return self._rows >= self.max_rows or self._bytes >= self.max_bytes

    def __bool__(self) -> bool:
        return self._rows > 0

    def take(self) -> pa.Table:
        """Return the rows as one table, and empty the buffer."""
        table = pa.concat_tables(self._tables)
        self._tables, self._rows, self._bytes = [], 0, 0
        return table
