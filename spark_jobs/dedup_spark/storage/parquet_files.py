"""Opens Parquet files by the types of their own schema. An Arrow schema that a writer stored beside it is ignored.

Such a schema asks for Arrow's own types (views, dictionaries, large and fixed-size lists, extension types), for which
pyarrow lacks functions, and which each of its versions reads in another way.
"""

from __future__ import annotations

from typing import IO, cast

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.parquet import read_parquet_footer


def open_parquet(source: pa.NativeFile, *, verify_checksums: bool = False) -> pq.ParquetFile:
    """Open a file. Raises pyarrow's error if it is no Parquet file. `verify_checksums`: of pages, as they are read."""
    footer = read_parquet_footer(cast(IO[bytes], source), source.size())
    metadata = pq.read_metadata(pa.BufferReader(footer)) if footer else None
    return pq.ParquetFile(source, metadata=metadata, pre_buffer=True, page_checksum_verification=verify_checksums)
