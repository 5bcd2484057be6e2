"""Streams the key columns of Parquet files, batch by batch, as the declared types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.fingerprints.key_columns import as_declared, key_columns

# So many rows of a few columns stay in the processor's cache while they are hashed.
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyBatch:
    """Rows `start`, `start + 1`, … of a file; `ids` are their update_ids, `others` their value columns.

    Both are None when nobody asked.
    """

    start: int
    values: tuple[pa.Array, ...]
    ids: Numbers | None
    others: tuple[pa.Array, ...] | None

    @property
    def rows(self) -> int:
        return len(self.values[0])

    @property
    def nbytes(self) -> int:
        return sum(int(array.nbytes) for array in self.values) + (0 if self.ids is None else self.ids.nbytes)


@dataclass
class KeyReader:
    """Adds up in `bytes_read` what it decoded, as stored."""

    table: TableContract
    bytes_read: int = 0
    _lock: Lock = field(default_factory=Lock)

    def batches(self, uri: str, *, with_ids: bool, with_others: bool) -> Iterator[KeyBatch]:
        """Batches in the order of the file's rows; empty ones are left out."""
        wanted = [column.name for column in key_columns(self.table)]
        wanted += [self.table.snapshot_id_column] if with_ids else []
        wanted += [column.name for column in self.table.value_columns] if with_others else []
        with storage.open_input(uri) as source, pq.ParquetFile(source, pre_buffer=True) as file:
            for start, batch in record_batches(file, wanted, self.count):
                yield self.key_batch(start, batch, with_ids=with_ids, with_others=with_others)

    def key_batch(self, start: int, batch: pa.RecordBatch, *, with_ids: bool, with_others: bool) -> KeyBatch:
        """The wanted columns of decoded rows, as declared."""
        columns, others = key_columns(self.table), self.table.value_columns if with_others else ()
        values = tuple(as_declared(column, batch.column(column.name)) for column in columns)
        ids = batch.column(self.table.snapshot_id_column).cast(pa.int64()).to_numpy() if with_ids else None
        kinds = [field.type for field in arrow_schema(others)]
        beside = tuple(declared(batch.column(c.name), kind) for c, kind in zip(others, kinds, strict=True))
        return KeyBatch(start, values, ids, beside if with_others else None)

    def count(self, stored: int) -> None:
        with self._lock:
            self.bytes_read += stored


def record_batches(
    file: pq.ParquetFile, columns: list[str], count: Callable[[int], None]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Decoded rows with the number of the first; empty batches are left out. `count` is told the bytes as stored."""
    start = 0
    for group in range(file.num_row_groups):  # one at a time: pages of a whole large file are not held
        count(stored_bytes(file, group, columns))
        rows = batch_rows(file, group, columns)
        for batch in file.iter_batches(rows, row_groups=[group], columns=columns, use_threads=False):
            if batch.num_rows:
                yield start, batch
            start += batch.num_rows


def declared(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


def batch_rows(file: pq.ParquetFile, group: int, columns: list[str]) -> int:
    """Rows of a batch: as many as stay in the processor's cache, fewer where they are wide."""
    size = sum(chunk.total_uncompressed_size for chunk in _chunks(file, group, columns))
    return rows_of_size(file.metadata.row_group(group).num_rows, size)


def rows_of_size(rows: int, size: int) -> int:
    """How many of so many rows of `size` bytes together make a batch."""
    return min(_BATCH_ROWS, max(_BATCH_BYTES * rows // max(size, 1), 1))


def stored_bytes(file: pq.ParquetFile, group: int, columns: list[str]) -> int:
    """Bytes of the row group's chunks of these top-level columns."""
    return sum(chunk.total_compressed_size for chunk in _chunks(file, group, columns))


def _chunks(file: pq.ParquetFile, group: int, columns: list[str]) -> list[pq.ColumnChunkMetaData]:
    metadata, wanted = file.metadata.row_group(group), set(columns)
    chunks = (metadata.column(number) for number in range(metadata.num_columns))
    return [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in wanted]
