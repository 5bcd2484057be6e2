"""Reads whole rows by their row numbers, cast to the declared types. Row groups without such rows are not decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from math import inf
from typing import Self

import numpy as np
import pyarrow as pa

from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.arrays import EMPTY_I64, BoolArray, I64Array
from dedup_spark.arrow_cast import cast_table, complete_batch
from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.selected_rows import Columns
from dedup_spark.fingerprints.key_columns import key_columns


@dataclass(frozen=True)
class RowSource:
    """Which rows to read from a file.

    They are the rows with the numbers `included`, and all rows with an update_id below `ids_below` except those with
    the numbers `excluded`. Both arrays ascend. If `ids_below` is None, only `included` counts. `rows`: how many rows
    the file has, or how many are included. `tables`: the rows themselves, if they are in memory and not in a file.
    """

    uri: str
    rows: int
    included: I64Array
    excluded: I64Array
    ids_below: float | None
    tables: tuple[pa.Table, ...] = ()

    @classmethod
    def all_rows(cls, uri: str, rows: int, *, excluded: I64Array = EMPTY_I64) -> Self:
        """All rows of a file except the `excluded` row numbers."""
        return cls(uri, rows, EMPTY_I64, excluded, ids_below=inf)

    @classmethod
    def selected_rows(cls, uri: str, included: I64Array) -> Self:
        """The `included` row numbers alone."""
        return cls(uri, len(included), included, EMPTY_I64, None)

    @classmethod
    def in_memory(cls, tables: Sequence[pa.Table]) -> Self:
        return cls("", sum(map(len, tables)), EMPTY_I64, EMPTY_I64, None, tuple(tables))

    @property
    def max_rows(self) -> int:
        """Upper limit of the number of rows that are read."""
        return self.rows - len(self.excluded)


def whole_rows(table: TableContract, day: date, keys: Columns, values: Columns, update_ids: I64Array) -> pa.Table:
    """Rows of a date with the declared columns, given by their key columns and value columns."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        table.partition_column: pa.repeat(pa.scalar(day, pa.date32()), len(update_ids)),
        table.snapshot_id_column: pa.array(update_ids, pa.int64()),
    }
    columns.update(zip((column.name for column in key_columns(table)), keys, strict=True))
    columns.update(zip((column.name for column in table.value_columns), values, strict=True))
    return pa.table([columns[column.name] for column in table.columns], schema=arrow_schema(table.columns))


def read_rows(reader: KeyReader, source: RowSource) -> Iterator[pa.Table]:
    """Yield the rows of `source` in the file's order, with the declared columns and types."""
    if source.tables:
        yield from source.tables
        return
    table = reader.table
    names = [column.name for column in table.columns]
    schema = arrow_schema(table.columns)
    with storage.open_input(source.uri) as stream, storage.open_parquet(stream) as file:

        def is_needed(start: int, stop: int) -> bool:
            return source.ids_below is not None or len(_between(source.included, start, stop)) > 0

        for first_row, read in storage.read_batches(file, names, is_needed):
            batch = complete_batch(table, source.uri, read, table.columns)
            selected = batch.filter(pa.array(_mask(table, source, batch, first_row)))
            if selected.num_rows:
                yield cast_table(pa.Table.from_batches([selected]).select(names), schema)


def _mask(table: TableContract, source: RowSource, batch: pa.RecordBatch, first_row: int) -> BoolArray:
    """For each row of the batch whether `source` has it. `first_row`: the batch's first row number in the file."""
    mask = np.zeros(batch.num_rows, dtype=bool)
    if source.ids_below is not None:
        mask = batch.column(table.snapshot_id_column).cast(pa.int64()).to_numpy() < source.ids_below
        mask[_between(source.excluded, first_row, first_row + batch.num_rows) - first_row] = False
    mask[_between(source.included, first_row, first_row + batch.num_rows) - first_row] = True
    return mask


def _between(ascending: I64Array, start: int, stop: int) -> I64Array:
    """The numbers from `start` to `stop - 1` that the array has."""
    return ascending[np.searchsorted(ascending, start) : np.searchsorted(ascending, stop)]
