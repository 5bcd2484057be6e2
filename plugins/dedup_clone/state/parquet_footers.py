"""Reads the footers of Parquet objects: number of rows and physical schema."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from dedup_clone.contract.parquet_columns import TEXT_PREFIX_BYTES, describe_unreadable
from dedup_clone.contract.parquet_footer import read_parquet_footer
from dedup_clone.state.store import ObjectStore, in_parallel


@dataclass(frozen=True)
class ParquetLeaf:
    """A column without nested columns. `logical_type` is a text, `annotation` the same type as JSON.

    `column`: the name of the top-level column that is the leaf, or contains it.
    """

    path: str
    column: str
    physical_type: str
    logical_type: str
    annotation: str

    @property
    def is_nested(self) -> bool:
        return self.path != self.column


@dataclass(frozen=True)
class ParquetFooter:
    """The footer of the object `name`. `leaves`: in the file's order.

    `problem`: why the footer could not be read; `rows` is then 0, and `leaves` is empty.
    """

    name: str
    rows: int
    leaves: tuple[ParquetLeaf, ...]
    problem: str | None = None


def read_footers(store: ObjectStore, names: list[str]) -> list[ParquetFooter]:
    """The footers of the named objects, in order, read in parallel by small requests.

    Raises the errors of Cloud Storage, and NotFound for an object that is gone.
    """

    def read(name: str) -> ParquetFooter:
        try:
            return _footer(store, name)
        except (OSError, ValueError) as error:
            if not _is_parse_error(error):
                raise
        try:  # once more: the first answer of Cloud Storage may have been cut off
            return _footer(store, name)
        except (OSError, ValueError) as error:
            if not _is_parse_error(error):
                raise
            return ParquetFooter(name, 0, (), _problem(store, name, error))

    return in_parallel(read, names)


def _is_parse_error(error: Exception) -> bool:
    """Whether pyarrow could not parse what it read. Errors of connections have classes of their own."""
    from pyarrow import ArrowInvalid

    # A column's name that is not UTF-8 is a UnicodeDecodeError.
    return type(error) is OSError or isinstance(error, (ArrowInvalid, UnicodeDecodeError))


def _problem(store: ObjectStore, name: str, error: Exception) -> str:
    with store.open(name) as stream:
        first = stream.read(TEXT_PREFIX_BYTES)
        stream.seek(max(0, stream.seek(0, 2) - TEXT_PREFIX_BYTES))
        return describe_unreadable(first, stream.read(), error)


def _footer(store: ObjectStore, name: str) -> ParquetFooter:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with store.open(name) as stream:
        footer = read_parquet_footer(stream, stream.seek(0, io.SEEK_END))
        metadata = pq.read_metadata(pa.BufferReader(footer) if footer else stream)
    leaves = tuple(_leaf(metadata.schema.column(number)) for number in range(len(metadata.schema)))
    return ParquetFooter(name, metadata.num_rows, leaves)


def _leaf(leaf: Any) -> ParquetLeaf:
    # The name is the last part of the path, and may contain dots. If both are equal, the leaf is a top-level column.
    column = leaf.path if leaf.name == leaf.path else leaf.path.split(".", 1)[0]
    return ParquetLeaf(leaf.path, column, leaf.physical_type, str(leaf.logical_type), leaf.logical_type.to_json())
