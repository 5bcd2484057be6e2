"""The footer of a Parquet object: its rows and its physical schema, read without its data."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import IO

from dedup_clone.state.store import ObjectStore, side_by_side


@dataclass(frozen=True)
class ParquetFooter:
    """`schema` is equal for files whose columns have the same names, types and annotations in the same order.

    `problem` says why there is no footer; the rest is then empty.
    """

    name: str
    rows: int
    schema: tuple[str, ...]
    problem: str | None = None


def read_footers(store: ObjectStore, names: list[str]) -> list[ParquetFooter]:
    """The footers of the named objects, in their order, read side by side."""

    def read(name: str) -> ParquetFooter:
        try:
            with store.open(name) as stream:
                return _footer(name, stream)
        except _UNREADABLE:
            # The storage may have failed and not the file: only what fails in memory too is the file's fault.
            with store.open(name) as stream:
                content = stream.read()
        try:
            return _footer(name, BytesIO(content))
        except _UNREADABLE as error:
            return ParquetFooter(name, 0, (), " ".join(str(error).split())[:300])

    return side_by_side(read, names)


# pyarrow's own errors are subclasses of these two.
_UNREADABLE = (OSError, ValueError)


def _footer(name: str, stream: IO[bytes]) -> ParquetFooter:
    import pyarrow.parquet as pq

    with pq.ParquetFile(stream) as file:
        leaves = [file.schema.column(number) for number in range(len(file.schema))]
        schema = tuple(f"{leaf.path} {leaf.physical_type} {leaf.logical_type}" for leaf in leaves)
        return ParquetFooter(name, file.metadata.num_rows, schema)
