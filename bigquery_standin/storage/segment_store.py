"""Stores segments: immutable Parquet files in one folder, which table versions reference, in Arrow types of their own.

Segments that no version references are removed when the stand-in starts (`clean_up.py`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import SCALARS
from bigquery_standin.storage.model import Segment

ROW_GROUP_ROWS = 122_880  # DuckDB's default; DuckDB prunes and parallelises by row group
LENGTH_PREFIX_BYTES = 2  # of every STRING and BYTES value
WriteRows = Callable[[pa.Table], Segment]  # writes rows to a new segment


class SegmentStore:
    """The folder of all segments. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, segment: Segment) -> Path:
        return self._folder / segment.file

    def read(self, segment: Segment) -> pa.Table:
        return pq.read_table(self.path(segment), partitioning=None)

    def read_all(self, segments: Iterable[Segment], columns: Sequence[TableField]) -> pa.Table:
        """The rows of the segments in these columns."""
        parts = [conform(self.read(segment), columns) for segment in segments]
        return pa.concat_tables([arrow_schema(columns).empty_table(), *parts])

    def write(self, rows: pa.Table) -> Segment:
        """Writes the rows to a new file."""
        segment = Segment(f"{uuid.uuid4().hex}.parquet", rows.num_rows, column_bytes(rows))
        with self.path(segment).open("wb") as stream:
            pq.write_table(rows, stream, compression="zstd", compression_level=1, row_group_size=ROW_GROUP_ROWS)
        return segment

    @contextmanager
    def temporary(self) -> Iterator[WriteRows]:
        """Yields a function that writes segments until the block ends. No version may reference them."""
        written: list[Segment] = []

        def write(rows: pa.Table) -> Segment:
            written.append(self.write(rows))
            return written[-1]

        try:
            yield write
        finally:
            self.remove(segment.file for segment in written)

    def files(self) -> set[str]:
        """The names of all files."""
        return {entry.name for entry in os.scandir(self._folder)}

    def remove(self, files: Iterable[str]) -> None:
        for file in files:
            (self._folder / file).unlink()


def column_bytes(rows: pa.Table) -> dict[str, int]:
    """The logical bytes of each top-level column."""
    return {name: sum(_array_bytes(chunk) for chunk in rows.column(name).chunks) for name in rows.column_names}


def _array_bytes(values: pa.Array) -> int:
    """The logical bytes of the values.

    A NULL has none, a list has those of its elements, a struct has those of its fields.
    """
    kind = values.type
    present = int(len(values) - values.null_count)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        content = pc.sum(pc.binary_length(values)).as_py() or 0
        return int(content) + LENGTH_PREFIX_BYTES * present
    if pa.types.is_list(kind):
        return _array_bytes(values.flatten())
    if pa.types.is_struct(kind):
        return sum(_array_bytes(part) for part in values.flatten())
    if pa.types.is_boolean(kind):
        return present
    if pa.types.is_decimal(kind):
        return 16 * present
    return 8 * present


def arrow_type(column: TableField) -> pa.DataType:
    if column.type == "STRUCT":
        kind: pa.DataType = pa.struct([pa.field(child.name, arrow_type(child)) for child in column.fields])
    else:
        kind = SCALARS[column.type].arrow
    return pa.list_(kind) if column.mode == "REPEATED" else kind


def arrow_schema(columns: Sequence[TableField]) -> pa.Schema:
    return pa.schema([pa.field(column.name, arrow_type(column)) for column in columns])


def conform(rows: pa.Table, columns: Sequence[TableField]) -> pa.Table:
    """`rows` with exactly the declared columns, in their order and types. A missing column becomes NULL.

    Column names are case-insensitive, as in BigQuery. Raises Invalid for a NULL in a REQUIRED column and for a
    value that does not fit its type, NotImplementedConstruct for a value of a type with parameters.
    """
    positions = {name.lower(): position for position, name in enumerate(rows.column_names)}
    arrays = []
    for column in columns:
        position = positions.get(column.name.lower())
        values = (
            pa.chunked_array([pa.nulls(rows.num_rows, arrow_type(column))])
            if position is None
            else rows.column(position)
        )
        if column.mode == "REQUIRED" and values.null_count:
            raise Invalid(
                f"Required field {column.name} cannot be null: found NULL in [{values.null_count}] rows; "
                "correct the rows or make the field NULLABLE."
            )
        if column.has_parameters and values.null_count < len(values):
            raise NotImplementedConstruct(f"values of column {column.name} {column.sql_type(parameterized=True)}")
        try:
            arrays.append(values.cast(arrow_type(column)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise Invalid(
                f"Column [{column.name}] of type [{values.type}] cannot be stored as [{column.sql_type()}]: {error}"
            ) from error
    return pa.Table.from_arrays(arrays, schema=arrow_schema(columns))
