"""Whole rows of chosen numbers, read from the row groups that hold them, as the declared columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.adopt.key_reader import KeyReader, Numbers, batch_rows, stored_bytes
from dedup_spark.column_types import arrow_schema


@dataclass(frozen=True)
class RowSource:
    """Rows to take from a file: those numbered in `kept`, and of those with an id below `below` all but `removed`.

    `decoded` are all these rows where they are at hand, so that the file is not read.
    """

    uri: str
    rows: int
    kept: Numbers
    removed: Numbers
    below: int | None
    decoded: tuple[pa.Table, ...] = ()

    @property
    def most_rows(self) -> int:
        return len(self.kept) if self.below is None else self.rows - len(self.removed)


def row_numbers(parts: Sequence[Numbers]) -> Numbers:
    return np.sort(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))


def read_rows(reader: KeyReader, source: RowSource) -> Iterator[pa.Table]:
    """Counts what it decodes in `reader`."""
    if source.decoded:
        yield from source.decoded
        return
    table = reader.table
    names = [column.name for column in table.columns]
    schema = arrow_schema(table.columns)
    with storage.open_input(source.uri) as stream, pq.ParquetFile(stream, pre_buffer=True) as file:
        start = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if source.below is not None or _any_between(source.kept, start, start + rows):
                reader.count(stored_bytes(file, group, names))
                begin = start
                some = batch_rows(file, group, names)
                for batch in file.iter_batches(some, row_groups=[group], columns=names, use_threads=False):
                    taken = batch.filter(pa.array(_mask(table, source, batch, begin)))
                    begin += batch.num_rows
                    if taken.num_rows:
                        yield pa.Table.from_batches([taken]).select(names).cast(schema)
            start += rows


def _mask(table: TableContract, source: RowSource, batch: pa.RecordBatch, begin: int) -> npt.NDArray[np.bool_]:
    mask = np.zeros(batch.num_rows, dtype=bool)
    if source.below is not None:
        mask = batch.column(table.snapshot_id_column).cast(pa.int64()).to_numpy() < source.below
        mask[_between(source.removed, begin, begin + batch.num_rows) - begin] = False
    mask[_between(source.kept, begin, begin + batch.num_rows) - begin] = True
    return mask


def _any_between(numbers: Numbers, start: int, stop: int) -> bool:
    return bool(np.searchsorted(numbers, start) < np.searchsorted(numbers, stop))


def _between(numbers: Numbers, start: int, stop: int) -> Numbers:
    return numbers[np.searchsorted(numbers, start) : np.searchsorted(numbers, stop)]
