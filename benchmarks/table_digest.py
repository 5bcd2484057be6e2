"""Computes digests of tables, to compare the table that a peer made with the expected table.

The digest of a file is computed from its rows, and the digest of a table is the sum of its files' digests. Neither
depends on the order of rows or files.
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
# The constants of SplitMix64, a pseudo-random number generator whose finalizer is the hash function `_hash`.
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HASH_MULTIPLIERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_DATE_FOLDER = re.compile(r"date=(\d{4}-\d{2}-\d{2})/")
_EPOCH = date(1970, 1, 1)
_THREADS = 2


@dataclass(frozen=True)
class TableDigest:
    """The number of rows, and the sum (modulo 2^64) and the exclusive-or of their 64-bit hashes."""

    rows: int = 0
    hash_sum: int = 0
    hash_xor: int = 0

    def __add__(self, other: TableDigest) -> TableDigest:
        hash_sum = (self.hash_sum + other.hash_sum) % 2**64
        return TableDigest(self.rows + other.rows, hash_sum, self.hash_xor ^ other.hash_xor)


def digest_rows(day: int, product: Hashes, other_columns: list[NDArray[np.int64]]) -> TableDigest:
    """The digest of rows of one date.

    `day`: the date in days since 1970-01-01. `product`: the hash of each row's product_id, from `number_hashes` or
    `text_hashes`. `other_columns`: the columns that follow product_id in COLUMNS.
    """
    hashes = _hash(product + np.uint64((day + 1) * int(_MULTIPLIER) % 2**64))
    for column in other_columns:
        hashes = _hash(hashes * _MULTIPLIER + column.view(np.uint64))
    hash_sum = int(np.add.reduce(hashes, dtype=np.uint64))
    return TableDigest(len(hashes), hash_sum, int(np.bitwise_xor.reduce(hashes)) if len(hashes) else 0)


def number_hashes(values: NDArray[np.int64]) -> Hashes:
    """The hash of each product_id that is a number."""
    return _hash(values.view(np.uint64))


def text_hashes(values: list[str]) -> Hashes:
    """The hash of each product_id that is text."""
    digests = [blake2b(value.encode(), digest_size=8).digest() for value in values]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


def _hash(values: Hashes) -> Hashes:
    hashed = values ^ (values >> np.uint64(30))
    hashed *= _HASH_MULTIPLIERS[0]
    hashed ^= hashed >> np.uint64(27)
    hashed *= _HASH_MULTIPLIERS[1]
    hashed ^= hashed >> np.uint64(31)
    return hashed


class DigestReader:
    """Computes digests of tables, and remembers the digests of their files.

    `open_file`: opens a file by its name. `identity`: returns the same value for all names of one file, such as hard
    links. Names with the same value are read once, or twice if two threads read them at the same time.
    """

    def __init__(self, open_file: Callable[[str], BinaryIO | pa.NativeFile], identity: Callable[[str], object]) -> None:
        self._open = open_file
        self._identity = identity
        self._digests: dict[object, TableDigest] = {}

    def digest(self, files: list[str]) -> TableDigest:
        """The digest of the table that consists of these files."""
        with ThreadPoolExecutor(_THREADS) as pool:
            return sum(pool.map(self._digest_file, files), TableDigest())

    def _digest_file(self, name: str) -> TableDigest:
        identity = self._identity(name)
        if identity not in self._digests:
            with self._open(name) as stream:
                self._digests[identity] = _digest_stream(name, stream)
        return self._digests[identity]


def _digest_stream(name: str, stream: BinaryIO | pa.NativeFile) -> TableDigest:
    file = pq.ParquetFile(stream)
    columns = [column for column in COLUMNS if column in file.schema_arrow.names]
    digest = TableDigest()
    for group in range(file.num_row_groups):
        digest += _digest_table(name, file.read_row_group(group, columns=columns, use_threads=False))
    return digest


def _digest_table(name: str, rows: pa.Table) -> TableDigest:
    other_columns = [rows[column].to_numpy() for column in COLUMNS[2:]]
    products = _product_hashes(rows["product_id"].combine_chunks())
    if "date" not in rows.column_names:
        return digest_rows(_day_of_folder(name), products, other_columns)
    days = rows["date"].cast(pa.date32()).cast(pa.int32()).to_numpy()
    digest = TableDigest()
    for day in np.unique(days):
        is_day = days == day
        digest += digest_rows(int(day), products[is_day], [column[is_day] for column in other_columns])
    return digest


def _product_hashes(column: pa.Array) -> Hashes:
    if pa.types.is_integer(column.type):
        return number_hashes(column.to_numpy(zero_copy_only=False).astype(np.int64))
    encoded = pc.dictionary_encode(column.cast(pa.string()))
    hashes: Hashes = text_hashes(encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return hashes


def _day_of_folder(name: str) -> int:
    """The date in a file's path, in days since 1970-01-01. Raises ValueError if the path has none."""
    found = _DATE_FOLDER.search(name)
    if not found:
        raise ValueError(f"File [{name}] has neither a column nor a folder [date]: let the peer write one of them.")
    return (date.fromisoformat(found[1]) - _EPOCH).days
