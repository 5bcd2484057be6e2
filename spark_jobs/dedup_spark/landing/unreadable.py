"""What to say of a file that is no readable Parquet, as far as its first bytes tell."""

from __future__ import annotations

import re

from dedup_spark.landing.page_formats import COMPRESSIONS_TEXT

_BEGINNINGS = {
    b"\x1f\x8b": "a gzip file: compress pages inside Parquet, not the file",
    b"(\xb5/\xfd": "a zstd file: compress pages inside Parquet, not the file",
    b"PK": "a zip file",
    b"ORC": "an ORC file",
    b"Obj\x01": "an Avro file",
    b"PARE": "an encrypted Parquet file: write it without Parquet's own encryption",
}
_MAGIC = b"PAR1"
_SHOWN_CHARACTERS = 300
_LOOKED_AT_BYTES = 64


def unreadable(content: bytes, error: Exception) -> str:
    """`content` is the whole file, `error` what its reader raised."""
    text = " ".join(str(error).split())[:_SHOWN_CHARACTERS].rstrip(".") or type(error).__name__
    seen = next((what for start, what in _BEGINNINGS.items() if content.startswith(start)), None)
    if seen is None and "crypt" in text.lower():
        seen = "an encrypted Parquet file: write it without Parquet's own encryption"
    if seen is None and re.search(r"(codec|compression).*support", text, re.IGNORECASE):
        seen = f"a Parquet file in another compression: use {COMPRESSIONS_TEXT}"
    if seen is None and content.startswith(_MAGIC) and not content.endswith(_MAGIC):
        seen = "a Parquet file without its end: upload it whole"
    if seen is None and not content.startswith(_MAGIC) and content[:_LOOKED_AT_BYTES].isascii():
        seen = "a text file"
    return f"cannot be read as Parquet: {text}" + (f"; it looks like {seen}" if seen else "")
