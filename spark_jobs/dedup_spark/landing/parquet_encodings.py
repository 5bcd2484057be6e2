"""Finds columns of landed files whose compression or encoding BigQuery cannot read."""

from __future__ import annotations

import pyarrow.parquet as pq

from dedup_clone.contract.parquet_columns import COMPRESSIONS, COMPRESSIONS_TEXT

# The encodings that BigQuery reads.
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


def unsupported_encodings(metadata: pq.FileMetaData) -> list[str]:
    """A problem for each column and each compression or encoding that BigQuery does not read.

    Call it only after every page was read, which proves that no column is encrypted: pyarrow crashes on the metadata of
    an encrypted column.
    """
    problems: dict[tuple[str, str], None] = {}
    for group in range(metadata.num_row_groups):
        chunks = metadata.row_group(group)
        for number in range(chunks.num_columns):
            chunk = chunks.column(number)
            if chunk.compression not in COMPRESSIONS:
                problem = f"is compressed by [{chunk.compression}], expected {COMPRESSIONS_TEXT}"
                problems[chunk.path_in_schema, problem] = None
            for encoding in set(chunk.encodings) - _ENCODINGS:
                problems[chunk.path_in_schema, f"is encoded by [{encoding}], expected {_ENCODINGS_TEXT}"] = None
    return [f"column [{path}] {problem}" for path, problem in problems]
