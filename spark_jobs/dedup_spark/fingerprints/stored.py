"""Fingerprints as objects beside a generation's data files: one a date, copied or deleted with its folder.

An object is never trusted alone: it must be whole, of these keys and this seed, and fold to the digest that the
manifest names. Anything else counts as absent, and the fingerprints are computed again from the data files.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt

from dedup_clone.contract.records import digest
from dedup_clone.contract.table import Column
from dedup_spark import storage
from dedup_spark.fingerprints.buckets import LEAST_BITS, MOST_BITS, BucketFingerprints
from dedup_spark.fingerprints.hashing import SEED

FOLDER = "fingerprints"
_MAGIC = b"DCKF"
_VERSION = 2
# Magic, version, bits, whether values are summed up too, seed, update_id of the rows, digest of the key columns,
# checksum of the numbers; and as many bytes more as make the numbers begin where a processor likes them to.
_HEADER = struct.Struct("<4sHHHQq32sI2x")


@dataclass(frozen=True)
class StoredFingerprints:
    """Fingerprints of the rows of a date whose update_id is `update_id`, its highest."""

    update_id: int
    buckets: BucketFingerprints


def path_of(day: date) -> str:
    """Below a generation's data folder."""
    return f"{FOLDER}/{day.isoformat()}.bin"


def write(uri: str, stored: StoredFingerprints, columns: tuple[Column, ...]) -> int:
    """Returns the bytes written."""
    found = stored.buckets
    parts: list[tuple[npt.NDArray[Any], str]] = [(found.counts, "<u4"), (found.firsts, "<u8"), (found.seconds, "<u8")]
    parts += [] if found.contents is None else [(found.contents, "<u8")]
    # As they lie in memory: a copy of all numbers would be a worker's largest object.
    numbers = [part.astype(kind, copy=False).data.cast("B") for part, kind in parts]
    checksum = 0
    for part in numbers:
        checksum = zlib.crc32(part, checksum)
    facts = found.bits, found.contents is not None, SEED, stored.update_id, _signature(columns)
    head = _HEADER.pack(_MAGIC, _VERSION, *facts, checksum)
    with storage.open_output(uri) as stream:
        stream.write(head)
        for part in numbers:
            stream.write(part)
    return len(head) + sum(map(len, numbers))


def read(uri: str, columns: tuple[Column, ...], expected_digest: str) -> StoredFingerprints | None:
    """None when the object is absent, damaged, of other keys or another version, or not what the manifest names."""
    try:
        with storage.open_input(uri) as stream:
            content = bytes(stream.read())
    except OSError:
        return None
    found = _decode(content, columns)
    return found if found and found.buckets.digest() == expected_digest else None


def _decode(content: bytes, columns: tuple[Column, ...]) -> StoredFingerprints | None:
    if len(content) < _HEADER.size:
        return None
    magic, version, bits, with_contents, seed, update_id, signature, checksum = _HEADER.unpack_from(content)
    numbers = memoryview(content)[_HEADER.size :]
    if (magic, version, seed, signature) != (_MAGIC, _VERSION, SEED, _signature(columns)):
        return None
    bucket_bytes = 28 if with_contents else 20
    if not LEAST_BITS <= bits <= MOST_BITS or len(numbers) != bucket_bytes << bits or zlib.crc32(numbers) != checksum:
        return None
    size = 1 << bits
    counts = np.frombuffer(numbers, "<u4", size).astype(np.uint32, copy=False)
    firsts, seconds, *others = (
        np.frombuffer(numbers, "<u8", size, offset * size).astype(np.uint64, copy=False)
        for offset in range(4, bucket_bytes, 8)
    )
    contents = others[0] if others else None
    return StoredFingerprints(update_id, BucketFingerprints(bits, counts, firsts, seconds, contents))


def _signature(columns: tuple[Column, ...]) -> bytes:
    return digest(" ".join(f"{column.name}:{column.type}" for column in columns)).encode()
