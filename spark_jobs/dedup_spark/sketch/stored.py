"""Writes and reads the sketches that are stored beside a generation's data files: one object for each date.

An object is used only if it is undamaged, was made from the same columns with the same seed and functions (its
version), and has the digest that the manifest records. Otherwise it counts as absent, and the sketch is computed again
from the data files.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from datetime import date
from uuid import uuid4

import numpy as np
import pyarrow as pa

from dedup_clone.contract.records import digest
from dedup_clone.contract.table import Column
from dedup_spark import storage
from dedup_spark.sketch.row_words import RowEncoder, Span
from dedup_spark.sketch.sketch import MAX_BITS, MIN_BITS, Sketch

FOLDER = "sketches"
_MAGIC = b"DCSK"
# Increase it when the words of rows, a hash function, or the permutation changes. Objects of other versions count as
# absent.
VERSION = 3
# Magic, version, bits, words of a row, number of spans, public id of the seed, update_id, number of rows, digest of the
# columns, CRC-32 of all that follows; four bytes of padding, so that the cells are aligned to eight bytes.
_HEADER = struct.Struct("<4sHHHHxxxxQqQ32sI4x")
# For each span, the position of its column, its bits, and its least number.
_SPAN = struct.Struct("<IIq")


@dataclass(frozen=True)
class StoredSketch:
    """The sketch of rows of a date: in mode last_seen of those with its highest update_id, which is `update_id`.

    In mode last_changed it is of all rows of the date's last delivery, and `update_id` is its snapshot id, or after a
    takeover the highest of the rows' update_ids.
    """

    update_id: int
    sketch: Sketch


def path_of(day: date) -> str:
    """The object's path below the generation's data folder."""
    return f"{FOLDER}/{day.isoformat()}.bin"


def path_of_part(day: date) -> str:
    """A new path for the sketch of some of the date's rows, which is deleted before the generation is complete."""
    return f"{FOLDER}/{day.isoformat()}-part-{uuid4().hex[:12]}.bin"


def write(uri: str, stored: StoredSketch) -> None:
    sketch, encoder = stored.sketch, stored.sketch.encoder
    positions = {column.name: number for number, column in enumerate((*encoder.keys, *encoder.values))}
    spans = b"".join(_SPAN.pack(positions[name], span.bits, span.least) for name, span in encoder.spans)
    cells = np.ascontiguousarray(sketch.cells, "<u8").data.cast("B")
    header = _HEADER.pack(
        _MAGIC,
        VERSION,
        sketch.bits,
        encoder.word_count,
        len(encoder.spans),
        encoder.seed.public_id,
        stored.update_id,
        sketch.rows,
        _columns_digest(encoder),
        zlib.crc32(cells, zlib.crc32(spans)),
    )
    with storage.open_output(uri) as stream:
        for part in (header, spans, cells):
            stream.write(part)


def read(uri: str, expected: RowEncoder, expected_digest: str) -> StoredSketch | None:
    """Return the sketch of the object. Its encoder is that of `expected`, with the object's own spans.

    None if it cannot be read or is damaged, or has another version, seed or digest, or other columns.
    """
    try:
        with storage.open_input(uri) as stream:
            found = _read(stream, expected)
    except OSError:
        return None
    return found if found and found.sketch.digest() == expected_digest else None


def _read(stream: pa.NativeFile, expected: RowEncoder) -> StoredSketch | None:
    header = stream.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    magic, version, bits, word_count, span_count, *others = _HEADER.unpack(header)
    seed_id, update_id, rows, columns_digest, checksum = others
    own = (_MAGIC, VERSION, expected.seed.public_id, _columns_digest(expected))
    if (magic, version, seed_id, columns_digest) != own or not MIN_BITS <= bits <= MAX_BITS:
        return None
    columns = (*expected.keys, *expected.values)
    if span_count > len(columns):
        return None
    spans = stream.read(_SPAN.size * span_count)
    cells = stream.read(2 * word_count * 8 << bits)
    if zlib.crc32(cells, zlib.crc32(spans)) != checksum or stream.read(1):
        return None
    encoder = RowEncoder(
        expected.keys,
        expected.values,
        expected.seed,
        tuple((columns[number].name, Span(least, width)) for number, width, least in _SPAN.iter_unpack(spans)),
    )
    if encoder.word_count != word_count or len(cells) != 2 * word_count * 8 << bits:
        return None
    sums = np.frombuffer(cells, "<u8").astype(np.uint64, copy=False).reshape(2, word_count, -1)
    return StoredSketch(update_id, Sketch(encoder, bits, rows, sums))


def _columns_digest(encoder: RowEncoder) -> bytes:
    return digest(" ".join(map(_text, (*encoder.keys, *encoder.values)))).encode()


def _text(column: Column) -> str:
    fields = " ".join(map(_text, column.fields))
    return f"{column.name}:{column.type}:{column.mode}({fields})"
