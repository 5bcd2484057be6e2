"""Landed files that hold rows which lost a tie: written anew without them, all other rows in their order.

Files without such rows are copied inside the storage like those of any adopted date.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
class ThinnedFiles:
    """`uris` of the landed files, and what is left of them: a file may hold nothing but rows that another has too."""

    uris: frozenset[str]
    files: tuple[DataFile, ...]


def write_without_ties(order: DateOrder, found: Differences, reader: KeyReader, data_uri: str) -> ThinnedFiles:
    """Of the newest delivery."""
    numbered = ((part, found.surplus_in(number)) for number, part in enumerate(order.newest.files))
    concerned = [(part, surplus) for part, surplus in numbered if len(surplus)] if found.surplus else []

    def write(one: tuple[LandedPart, Numbers]) -> DataFile | None:
        return _write(order, *one, reader, data_uri)

    with ThreadPoolExecutor(order.threads) as pool:
        written = list(pool.map(write, concerned))
    return ThinnedFiles(frozenset(part.uri for part, _ in concerned), tuple(file for file in written if file))


def _write(order: DateOrder, part: LandedPart, surplus: Numbers, reader: KeyReader, data_uri: str) -> DataFile | None:
    every_id = order.newest.delivery.snapshot_id + 1
    source = RowSource(part.uri, part.rows, kept=row_numbers([]), removed=surplus, below=every_id)
    pending, file = PendingRows(_PENDING_ROWS, _PENDING_BYTES), None
    for rows in read_rows(reader, source):
        pending.add(rows)
        if pending.is_full:
            file = file or OpenDataFile(reader.table, data_uri, order.day, "thinned")
            file.write(pending.take())
    if pending:
        file = file or OpenDataFile(reader.table, data_uri, order.day, "thinned")
        file.write(pending.take())
    return file.close() if file else None
