"""Finds files that were joined byte by byte. Readers see only the rows of the last footer, read from the first file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.parquet_footer import MAGIC, TRAILER_BYTES


def joined_files(metadata: pq.FileMetaData, source: pa.NativeFile) -> list[str]:
    """A problem if the bytes between the last column chunk and the footer hold the seam of two files.

    Otherwise these bytes are Bloom filters and page indexes. If there are none, nothing is read. Call it only if no
    column is encrypted (see `unsupported_encodings`).
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
