"""Finds what is wrong with the layout of a landed file: encodings that BigQuery cannot read, and joined files.

Call these functions only after every page was read, which proves that no column is encrypted: pyarrow crashes on the
metadata of an encrypted column.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.parquet import COMPRESSIONS, COMPRESSIONS_TEXT, MAGIC, TRAILER_BYTES

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
    """A problem for each column and each compression or encoding that BigQuery does not read."""
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


def joined_files(metadata: pq.FileMetaData, source: pa.NativeFile) -> list[str]:
    """A problem if the bytes between the last column chunk and the footer hold the seam of two joined files.

    Readers see only the rows of the last footer, read from the first file. Without a seam these bytes are Bloom filters
    and page indexes. If there are none, nothing is read.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    end = max((_start(chunk) + chunk.total_compressed_size for chunk in chunks), default=len(MAGIC))
    rest = source.size() - TRAILER_BYTES - metadata.serialized_size - end
    if rest <= 0 or MAGIC + MAGIC not in source.read_at(rest, end):
        return []
    return [
        f"has [{metadata.num_rows}] rows by its last footer, and the bytes of another Parquet file behind them: files "
        f"were joined byte by byte, land each by itself"
    ]


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(dictionary or chunk.data_page_offset)
