"""Describes the problems of files that are not Parquet, or whose compression or encoding cannot be read."""

from __future__ import annotations

import re

import pyarrow.parquet as pq

# BigQuery also supports LZO and raw LZ4, but Spark has no LZO, and pyarrow cannot tell raw LZ4 from LZ4 in frames.
_COMPRESSIONS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"}
_ENCODINGS = {
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_BYTE_ARRAY",
    "DELTA_LENGTH_BYTE_ARRAY",
    "PLAIN",
    "PLAIN_DICTIONARY",
    "RLE",
    "RLE_DICTIONARY",
}
_ENCODINGS_TEXT = f"one of [{', '.join(sorted(_ENCODINGS))}]"
_COMPRESSIONS_TEXT = f"one of [{', '.join(sorted(_COMPRESSIONS))}]"

_ENCRYPTED = "an encrypted Parquet file: write it without Parquet's own encryption"
_FIRST_BYTES = {
    b"\x1f\x8b": "a gzip file: compress pages inside Parquet, not the file",
    b"(\xb5/\xfd": "a zstd file: compress pages inside Parquet, not the file",
    b"PK": "a zip file",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"PARE": _ENCRYPTED,
}
_MAGIC = b"PAR1"
_MAX_CHARACTERS = 300
# A file whose first bytes, this many, are all ASCII is taken for a text file.
_TEXT_PREFIX_BYTES = 64


def unsupported_formats(metadata: pq.FileMetaData) -> list[str]:
    """A problem for each column and each compression or encoding that Spark or BigQuery does not read.

    Call it only after every page was read, which proves that no column is encrypted: pyarrow crashes on the metadata of
    an encrypted column.
    """
    problems: dict[tuple[str, str], None] = {}
    for group in range(metadata.num_row_groups):
        chunks = metadata.row_group(group)
        for number in range(chunks.num_columns):
            chunk = chunks.column(number)
            if chunk.compression not in _COMPRESSIONS:
                problem = f"is compressed by [{chunk.compression}], expected {_COMPRESSIONS_TEXT}"
                problems[chunk.path_in_schema, problem] = None
            for encoding in set(chunk.encodings) - _ENCODINGS:
                problems[chunk.path_in_schema, f"is encoded by [{encoding}], expected {_ENCODINGS_TEXT}"] = None
    return [f"column [{path}] {problem}" for path, problem in problems]


def describe_unreadable(content: bytes, error: Exception) -> str:
    """Say why the file with this `content` could not be read. `error`: what the reader of the file raised."""
    text = " ".join(str(error).split())[:_MAX_CHARACTERS].rstrip(".") or type(error).__name__
    kind = next((kind for start, kind in _FIRST_BYTES.items() if content.startswith(start)), None)
    if kind is None and "crypt" in text.lower():
        kind = _ENCRYPTED
    if kind is None and re.search(r"(codec|compression).*support", text, re.IGNORECASE):
        kind = f"a Parquet file in another compression: use {_COMPRESSIONS_TEXT}"
    if kind is None and "child array invalid" in text:
        kind = "a Parquet file with data pages without values, where pyarrow ends the column: write larger data pages"
    if kind is None and content.startswith(_MAGIC) and not content.endswith(_MAGIC):
        kind = "a Parquet file without its end: upload it whole"
    if kind is None and not content.startswith(_MAGIC) and content[:_TEXT_PREFIX_BYTES].isascii():
        kind = "a text file"
    return f"cannot be read as Parquet: {text}" + (f"; it looks like {kind}" if kind else "")
