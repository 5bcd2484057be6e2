"""Landed files that cannot be the date's as they are: written anew in the form that the job writes, in their own order.

Some hold rows that lost a tie, which are left out. Others have types, modes or an order of columns of their own: a load
job takes its schema from one file, and must find it in all. Any other file of an adopted date is copied as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from dedup_clone.contract.manifest import DataFile
from dedup_spark.adopt.found import Differences
from dedup_spark.adopt.key_reader import KeyReader, Numbers
from dedup_spark.adopt.orders import DateOrder, LandedPart
from dedup_spark.adopt.rows import RowSource, read_rows, row_numbers
from dedup_spark.data_file import OpenDataFile, PendingRows

# Rows that become one row group.
_PENDING_ROWS = 1 << 20
_PENDING_BYTES = 64 << 20


@dataclass(frozen=True)
class MendedFiles:
    """`uris` of the landed files, and what is left of them: a file may hold nothing but rows that another has too.

    `cast` is how many of them had another form.
    """

    uris: frozenset[str]
    cast: int
    files: tuple[DataFile, ...]


def write_mended(order: DateOrder, found: Differences, reader: KeyReader, data_uri: str) -> MendedFiles:
    """Of the newest delivery, whose files have been read once."""
    numbered = ((part, found.surplus_in(number)) for number, part in enumerate(order.newest.files) if part.rows)
    concerned = [(part, surplus) for part, surplus in numbered if len(surplus) or not part.is_as_written]

    def write(one: tuple[LandedPart, Numbers]) -> DataFile | None:
        return _write(order, *one, reader, data_uri)

    with ThreadPoolExecutor(order.threads) as pool:
        written = list(pool.map(write, concerned))
    return MendedFiles(
        uris=frozenset(part.uri for part, _ in concerned),
        cast=sum(not part.is_as_written for part, _ in concerned),
        files=tuple(file for file in written if file),
    )


def _write(order: DateOrder, part: LandedPart, surplus: Numbers, reader: KeyReader, data_uri: str) -> DataFile | None:
    every_id = order.newest.delivery.snapshot_id + 1
    source = RowSource(part.uri, part.rows, kept=row_numbers([]), removed=surplus, below=every_id)
    file = None
    for rows in _row_groups(read_rows(reader, source)):
        file = file or OpenDataFile(reader.table, data_uri, order.day, "mended")
        file.write(rows)
    return file.close() if file else None


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    pending = PendingRows(_PENDING_ROWS, _PENDING_BYTES)
    for table in tables:
        pending.add(table)
        if pending.is_full:
            yield pending.take()
    if pending:
        yield pending.take()
