"""Reads files that may be compressed by gzip, as JSON and CSV files may be in a load job.

Source: "Introduction to loading data", loading compressed and uncompressed data.
"""

from __future__ import annotations

import gzip
import zlib

from devstack.bigquery.bigquery_errors import Invalid

_FIRST_BYTES = b"\x1f\x8b"


def uncompressed(uri: str, content: bytes) -> bytes:
    """The content of a file. Raises Invalid if it is compressed and damaged."""
    if not content.startswith(_FIRST_BYTES):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"Error while reading data, error message: GZIP file is damaged: {error}. File: {uri}") from error
