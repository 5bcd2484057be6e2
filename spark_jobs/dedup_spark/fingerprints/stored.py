"""Writes and reads the fingerprints that are stored beside a generation's data files: one object for each date.

An object is used only if it is undamaged, was made from the same key columns with the same seed and hash functions (its
version), and has the digest that the manifest records. Otherwise it counts as absent, and the fingerprints are computed
again from the data files.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.records import digest
from dedup_clone.contract.table import Column
from dedup_spark import storage
from dedup_spark.fingerprints.buckets import MAX_BITS, MIN_BITS, BucketFingerprints
from dedup_spark.fingerprints.hashing import KeyHasher

FOLDER = "fingerprints"
_MAGIC = b"DCKF"
# Increase it when a hash function of this package or the choice of buckets changes. Objects of other versions count as
# absent.
VERSION = 3
# Magic, version, bits, whether sums of value hashes follow, public id of the seed, update_id, digest of the
# key columns, CRC-32 of the arrays; two bytes of padding, so that the arrays are aligned to eight bytes.
_HEADER = struct.Struct("<4sHHHQq32sI2x")


@dataclass(frozen=True)
class StoredFingerprints:
    """Fingerprints of rows of a date: in mode last_seen of those with its highest update_id, which is `update_id`.

    In mode last_changed they are of all rows of the date's last delivery, and `update_id` is its snapshot id, or after
    a takeover the highest of the rows' update_ids.
    """

    update_id: int
    buckets: BucketFingerprints


def path_of(day: date) -> str:
    """The object's path below the generation's data folder."""
    return f"{FOLDER}/{day.isoformat()}.bin"


def write(uri: str, stored: StoredFingerprints, hasher: KeyHasher) -> None:
    """Write the object. `hasher`: the hasher of the keys in the fingerprints."""
    buckets = stored.buckets
    arrays: list[tuple[npt.NDArray[Any], str]] = [
        (buckets.counts, "<u4"),
        (buckets.first_sums, "<u8"),
        (buckets.second_sums, "<u8"),
    ]
    arrays += [] if buckets.value_sums is None else [(buckets.value_sums, "<u8")]
    # Views of the memory: a copy of all arrays would be a worker's largest object.
    parts = [array.astype(dtype, copy=False).data.cast("B") for array, dtype in arrays]
    with_values = buckets.value_sums is not None
    seed_id, key_digest = hasher.seed.public_id, _key_digest(hasher.columns)
    header = _HEADER.pack(
        _MAGIC, VERSION, buckets.bits, with_values, seed_id, stored.update_id, key_digest, _checksum(parts)
    )
    with storage.open_output(uri) as stream:
        stream.write(header)
        for part in parts:
            stream.write(part)


def read(uri: str, hasher: KeyHasher, expected_digest: str) -> StoredFingerprints | None:
    """Return the fingerprints of the object.

    None if it cannot be read or is damaged, or has another version, seed or digest, or other key columns.
    """
    try:
        with storage.open_input(uri) as stream:
            found = _read(stream, hasher)
    except OSError:
        return None
    return found if found and found.buckets.digest() == expected_digest else None


def _read(stream: pa.NativeFile, hasher: KeyHasher) -> StoredFingerprints | None:
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, version, bits, with_values, seed_id, update_id, key_digest, checksum = _HEADER.unpack(header)
    expected = (_MAGIC, VERSION, hasher.seed.public_id, _key_digest(hasher.columns))
    if (magic, version, seed_id, key_digest) != expected or not MIN_BITS <= bits <= MAX_BITS:
        return None
    # Each array is read into memory of its own, so that sums of values can be freed before the others.
    parts = [stream.read(width << bits) for width in ((4, 8, 8, 8) if with_values else (4, 8, 8))]
    if _checksum(parts) != checksum or len(parts[-1]) != 8 << bits or stream.read(1):
        return None
    counts = np.frombuffer(parts[0], "<u4").astype(np.uint32, copy=False)
    first_sums, second_sums, *others = (np.frombuffer(part, "<u8").astype(np.uint64, copy=False) for part in parts[1:])
    value_sums = others[0] if others else None
    return StoredFingerprints(update_id, BucketFingerprints(bits, counts, first_sums, second_sums, value_sums))


def _checksum(parts: Sequence[bytes | memoryview]) -> int:
    """The CRC-32 of the parts, one after the other."""
    return reduce(lambda checksum, part: zlib.crc32(part, checksum), parts, 0)


def _key_digest(columns: tuple[Column, ...]) -> bytes:
    return digest(" ".join(f"{column.name}:{column.type}" for column in columns)).encode()
