"""Compressions and encodings of Parquet pages: only those that Spark and BigQuery both read."""

from __future__ import annotations

import pyarrow.parquet as pq

# BigQuery also names LZO, and LZ4 in its raw form only: Spark has no LZO, and pyarrow cannot tell the two LZ4 apart.
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
COMPRESSIONS_TEXT = f"one of [{', '.join(sorted(_COMPRESSIONS))}]"


def unsupported_formats(metadata: pq.FileMetaData) -> list[str]:
    """One text for each column and each compression or encoding that not both read.

    To be asked of a file whose every page was read: pyarrow ends the process over an encrypted column.
    """
    found: dict[tuple[str, str], None] = {}
    for group in range(metadata.num_row_groups):
        chunks = metadata.row_group(group)
        for number in range(chunks.num_columns):
            chunk = chunks.column(number)
            if chunk.compression not in _COMPRESSIONS:
                what = f"is compressed by [{chunk.compression}], expected {COMPRESSIONS_TEXT}"
                found[chunk.path_in_schema, what] = None
            for encoding in set(chunk.encodings) - _ENCODINGS:
                found[chunk.path_in_schema, f"is encoded by [{encoding}], expected {_ENCODINGS_TEXT}"] = None
    return [f"column [{path}] {what}" for path, what in found]
