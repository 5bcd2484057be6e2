"""Streams the key columns of Parquet files, batch by batch, cast to the declared types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.table import Column, TableContract
from dedup_spark import storage
from dedup_spark.arrays import I64Array
from dedup_spark.arrow_cast import complete_batch
from dedup_spark.comparison.cluster_overlap import Range, block_ranges, overlapping_share
from dedup_spark.fingerprints.key_columns import as_declared, key_columns
from dedup_spark.landing.folder_columns import with_folder_columns
from dedup_spark.storage import open_parquet

# The most rows and bytes of a batch: a few of its columns then stay in the processor's cache while they are hashed.
_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 16 << 20


@dataclass(frozen=True)
class KeyBatch:
    """Consecutive rows of a file, from row number `first_row` on.

    `update_ids` and `value_columns` are None when they were not requested.
    """

    first_row: int
    key_columns: tuple[pa.Array, ...]
    update_ids: I64Array | None
    value_columns: tuple[pa.Array, ...] | None

    @property
    def rows(self) -> int:
        return len(self.key_columns[0])


@dataclass
class KeyReader:
    """Reads files of one table.

    `ranges`: by the URI of each file that it read, the lowest and highest value of the first clustering column in each
    block (row group).
    """

    table: TableContract
    ranges: dict[str, tuple[Range, ...] | None] = field(default_factory=dict)

    def batches(self, uri: str, *, with_ids: bool, with_values: bool) -> Iterator[KeyBatch]:
        """Yield the rows of a file in order, in batches that are not empty; update_ids and values only on attempt."""
        names = self._names(with_ids=with_ids)
        names += [column.name for column in self.table.value_columns] if with_values else []
        first_row = 0
        with storage.open_input(uri) as source, open_parquet(source) as file:
            self.note_ranges(uri, file)
            # One row group at a time, so that not all pages of a large file are in memory.
            for group in range(file.num_row_groups):
                batch_rows = group_rows_per_batch(file, group, names)
                for batch in file.iter_batches(batch_rows, row_groups=[group], columns=names, use_threads=False):
                    if batch.num_rows:
                        yield self.key_batch(uri, first_row, batch, with_ids=with_ids, with_values=with_values)
                    first_row += batch.num_rows

    def _names(self, *, with_ids: bool) -> list[str]:
        """The names of the key columns and, on request, of the update id."""
        names = [column.name for column in key_columns(self.table)]
        return [*names, self.table.snapshot_id_column] if with_ids else names

    def metadata(self, uri: str) -> pq.FileMetaData:
        """The footer of a file."""
        with storage.open_input(uri) as source, open_parquet(source) as file:
            return file.metadata

    def key_batch(
        self, uri: str, first_row: int, batch: pa.RecordBatch, *, with_ids: bool, with_values: bool
    ) -> KeyBatch:
        """The requested columns of a decoded batch, with the declared types. A value column that it lacks is NULL."""
        batch = with_folder_columns(self.table, uri, batch, self._names(with_ids=with_ids))
        batch = complete_batch(batch, self.table.value_columns) if with_values else batch

        def declared(columns: tuple[Column, ...]) -> tuple[pa.Array, ...]:
            return tuple(as_declared(column, batch.column(column.name)) for column in columns)

        ids = batch.column(self.table.snapshot_id_column).cast(pa.int64()).to_numpy() if with_ids else None
        values = declared(self.table.value_columns) if with_values else None
        return KeyBatch(first_row, declared(key_columns(self.table)), ids, values)

    def note_ranges(self, uri: str, file: pq.ParquetFile) -> None:
        """Record the block ranges of the first clustering column.

        The file must not have an encrypted column, because pyarrow crashes on the metadata of such a column.
        """
        if self.table.cluster_by:
            self.ranges[uri] = block_ranges(file, self.table.cluster_by[0])

    def cluster_overlap(self, uris: Iterable[str]) -> float | None:
        """The share of blocks (0 to 1) that overlap. None without clustering.

        Also None if one of the files was not read or has no bounds of its blocks, or if bounds cannot be compared.
        """
        if not self.table.cluster_by:
            return None
        return overlapping_share([self.ranges.get(uri) for uri in uris])


def group_rows_per_batch(file: pq.ParquetFile, group: int, columns: list[str]) -> int:
    """How many rows of this row group make a batch (see `rows_per_batch`)."""
    size = sum(chunk.total_uncompressed_size for chunk in _chunks(file, group, columns))
    return rows_per_batch(file.metadata.row_group(group).num_rows, size)


def rows_per_batch(rows: int, size: int) -> int:
    """Return `_BATCH_ROWS`, or fewer if so many rows would exceed `_BATCH_BYTES`. `size`: the bytes of `rows` rows."""
    return min(_BATCH_ROWS, max(_BATCH_BYTES * rows // max(size, 1), 1))


def _chunks(file: pq.ParquetFile, group: int, columns: list[str]) -> list[pq.ColumnChunkMetaData]:
    metadata, names = file.metadata.row_group(group), set(columns)
    chunks = (metadata.column(number) for number in range(metadata.num_columns))
    return [chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] in names]
