"""Writes and reads the sketches that are stored beside a generation's data files: one object for each date.

An object is a checksum, a line of JSON, and the cells. It is used only if it is undamaged, was made from the same
columns with the same seed and functions (its version), and has the digest that the manifest records. Otherwise it
counts as absent, and the sketch is computed again from the data files.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, replace
from datetime import date
from uuid import uuid4

import numpy as np

from dedup_clone.contract.records import digest
from dedup_clone.contract.table import Column
from dedup_spark import storage
from dedup_spark.sketch.row_words import RowEncoder, Span
from dedup_spark.sketch.sketch import Sketch

FOLDER = "sketches"
# Increase it when the words of rows, a hash function, or the permutation changes. Objects of other versions count as
# absent.
VERSION = 4
_CHECKSUM_BYTES = 8  # CRC-32 in hexadecimal
_ALIGNED_BYTES = 8


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
    facts = {"bits": sketch.bits, "rows": sketch.rows, "update_id": stored.update_id, "spans": encoder.spans}
    text = json.dumps({"made_by": _made_by(encoder), **facts}) + "\n"
    header = text.rjust(-(-len(text) // _ALIGNED_BYTES) * _ALIGNED_BYTES).encode()
    cells = np.ascontiguousarray(sketch.cells, "<u8").data.cast("B")
    with storage.open_output(uri) as stream:
        for part in (_checksum(header, cells), header, cells):
            stream.write(part)


def read(uri: str, expected: RowEncoder, expected_digest: str) -> StoredSketch | None:
    """Return the sketch of the object. Its encoder is that of `expected`, with the object's own spans.

    None if it cannot be read or is damaged, or has another version, seed or digest, or other columns.
    """
    try:
        with storage.open_input(uri) as stream:
            content = stream.read()
    except OSError:
        return None
    if content[:_CHECKSUM_BYTES] != _checksum(memoryview(content)[_CHECKSUM_BYTES:]):
        return None
    end = content.index(b"\n") + 1
    facts = json.loads(content[_CHECKSUM_BYTES:end])
    if facts["made_by"] != _made_by(expected):
        return None
    encoder = replace(expected, spans=tuple((name, Span(*span)) for name, span in facts["spans"]))
    cells = np.frombuffer(content, "<u8", offset=end).astype(np.uint64, copy=False)
    sketch = Sketch(encoder, facts["bits"], facts["rows"], cells.reshape(2, encoder.word_count, -1))
    return StoredSketch(facts["update_id"], sketch) if sketch.digest() == expected_digest else None


def _checksum(*parts: bytes | memoryview) -> bytes:
    checksum = 0
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return f"{checksum:0{_CHECKSUM_BYTES}x}".encode()


def _made_by(encoder: RowEncoder) -> list[str]:
    """What sketches must have in common to be compared: the version, the seed and the columns."""
    columns = digest(" ".join(map(_text, (*encoder.keys, *encoder.values))))
    return [f"{VERSION}", f"{encoder.seed.public_id:016x}", columns]


def _text(column: Column) -> str:
    fields = " ".join(map(_text, column.fields))
    return f"{column.name}:{column.type}:{column.mode}({fields})"
