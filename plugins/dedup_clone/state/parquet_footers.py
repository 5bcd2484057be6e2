"""Reads the footers of Parquet objects: number of rows and physical schema."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import IO

from dedup_clone.state.store import ObjectStore, in_parallel


@dataclass(frozen=True)
class ParquetFooter:
    """The footer of one object. `schema` has one text per column: path, physical type and logical type.

    `problem`: why the footer could not be read; `rows` is then 0, and `schema` is empty.
    """

    name: str
    rows: int
    schema: tuple[str, ...]
    problem: str | None = None


def read_footers(store: ObjectStore, names: list[str]) -> list[ParquetFooter]:
    """The footers of the named objects, in order, read in parallel."""

    def read(name: str) -> ParquetFooter:
        try:
            with store.open(name) as stream:
                return _footer(name, stream)
        except _PARSE_ERRORS:
            # The error may be one of Cloud Storage. The file is broken only if parsing its downloaded bytes fails too.
            with store.open(name) as stream:
                content = stream.read()
        try:
            return _footer(name, BytesIO(content))
        except _PARSE_ERRORS as error:
            return ParquetFooter(name, 0, (), " ".join(str(error).split())[:300])

    return in_parallel(read, names)


# pyarrow's own errors are subclasses of these two.
_PARSE_ERRORS = (OSError, ValueError)


def _footer(name: str, stream: IO[bytes]) -> ParquetFooter:
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream) as file:
        leaves = [file.schema.column(number) for number in range(len(file.schema))]
        schema = tuple(f"{leaf.path} {leaf.physical_type} {leaf.logical_type}" for leaf in leaves)
        return ParquetFooter(name, file.metadata.num_rows, schema)
