"""Computes digests of tables: the count, sum and exclusive-or of a 64-bit hash of every row.

Digests of files are added in any order, so the digest of a file that was read before can be used again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

COLUMNS = ("date", "product_id", "store_id", "attribute_id", "attr_value", "update_id")
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_FOLDER = re.compile(r"date=(\d{4}-\d{2}-\d{2})/")
_EPOCH = date(1970, 1, 1)
_THREADS = 2


@dataclass(frozen=True)
class TableDigest:
    """The digest of a multiset of rows."""

    rows: int = 0
    total: int = 0
    exclusive: int = 0

    def __add__(self, other: TableDigest) -> TableDigest:
        total = (self.total + other.total) % 2**64
        return TableDigest(self.rows + other.rows, total, self.exclusive ^ other.exclusive)


def digest_rows(day: int, product: Hashes, others: list[NDArray[np.int64]]) -> TableDigest:
    """The digest of rows of one date. `day`: days since 1970. `product`: result of `number_hashes` or `text_hashes`."""
    found = _mixed(product + np.uint64((day + 1) * int(_FACTOR) % 2**64))
    for column in others:
        found = _mixed(found * _FACTOR + column.view(np.uint64))
    total = int(np.add.reduce(found, dtype=np.uint64))
    return TableDigest(len(found), total, int(np.bitwise_xor.reduce(found)) if len(found) else 0)


def number_hashes(values: NDArray[np.int64]) -> Hashes:
    return _mixed(values.view(np.uint64))


def text_hashes(values: list[str]) -> Hashes:
    digests = [blake2b(value.encode(), digest_size=8).digest() for value in values]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _mixed(values: Hashes) -> Hashes:
    mixed = values ^ (values >> np.uint64(30))
    mixed *= _MIX[0]
    mixed ^= mixed >> np.uint64(27)
    mixed *= _MIX[1]
    mixed ^= mixed >> np.uint64(31)
    return mixed


class DigestReader:
    """Reads the digests of files. Files with the same `identity`, such as hard links, are read once."""

    def __init__(self, open_file: Callable[[str], BinaryIO | pa.NativeFile], identity: Callable[[str], object]) -> None:
        self._open = open_file
        self._identity = identity
        self._seen: dict[object, TableDigest] = {}

    def of(self, files: list[str]) -> TableDigest:
        with ThreadPoolExecutor(_THREADS) as pool:
            return sum(pool.map(self._of_file, files), TableDigest())

    def _of_file(self, name: str) -> TableDigest:
        identity = self._identity(name)
        if identity not in self._seen:
            with self._open(name) as stream:
                self._seen[identity] = _of_stream(name, stream)
        return self._seen[identity]


def _of_stream(name: str, stream: BinaryIO | pa.NativeFile) -> TableDigest:
    file = pq.ParquetFile(stream)
    columns = [column for column in COLUMNS if column in file.schema_arrow.names]
    found = TableDigest()
    for group in range(file.num_row_groups):
        found += _of_table(name, file.read_row_group(group, columns=columns, use_threads=False))
    return found


def _of_table(name: str, rows: pa.Table) -> TableDigest:
    others = [rows[column].to_numpy() for column in COLUMNS[2:]]
    products = _product_hashes(rows["product_id"].combine_chunks())
    if "date" not in rows.column_names:
        return digest_rows(_day_of_folder(name), products, others)
    days = rows["date"].cast(pa.date32()).cast(pa.int32()).to_numpy()
    found = TableDigest()
    for day in np.unique(days):
        of_day = days == day
        found += digest_rows(int(day), products[of_day], [column[of_day] for column in others])
    return found


def _product_hashes(column: pa.Array) -> Hashes:
    if pa.types.is_integer(column.type):
        return number_hashes(column.to_numpy(zero_copy_only=False).astype(np.int64))
    encoded = pc.dictionary_encode(column.cast(pa.string()))
    hashes: Hashes = text_hashes(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return hashes


def _day_of_folder(name: str) -> int:
    found = _FOLDER.search(name)
    if not found:
        raise ValueError(f"File [{name}] has neither a column nor a folder [date]: let the peer write one of them.")
    return (date.fromisoformat(found[1]) - _EPOCH).days
