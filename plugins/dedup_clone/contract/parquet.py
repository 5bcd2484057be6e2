"""Says which Parquet types may hold the values of a BigQuery type, and reads the footers of files.

The Spark job, the task `resolve_publish` and the SQL engines share these rules. In Parquet only leaves, which are
columns without nested columns, have types: a physical type, such as INT64, and perhaps a logical type, such as
Timestamp, as an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO, Any

from dedup_clone.contract.table import NUMERIC_DIGITS, NUMERIC_INTEGER_DIGITS, NUMERIC_SCALE

# Declared type and physical type of leaves without a logical type.
_NOT_ANNOTATED = {
    ("BOOL", "BOOLEAN"),
    ("BYTES", "BYTE_ARRAY"),
    ("BYTES", "FIXED_LEN_BYTE_ARRAY"),
    ("FLOAT64", "DOUBLE"),
    ("FLOAT64", "FLOAT"),
    ("INT64", "INT32"),
    ("INT64", "INT64"),
    ("NUMERIC", "INT32"),
    ("NUMERIC", "INT64"),
}
_PARQUET_TYPES = {
    "BOOL": "BOOLEAN",
    "BYTES": "BYTE_ARRAY without annotation",
    "DATE": "INT32 annotated DATE",
    "DATETIME": "INT64 annotated TIMESTAMP, not adjusted to UTC, milliseconds or microseconds",
    "FLOAT64": "DOUBLE or FLOAT",
    "INT64": "INT64 or INT32, unsigned up to 32 bits",
    "NUMERIC": f"DECIMAL of {NUMERIC_DIGITS}, or what INT64 accepts",
    "STRING": "BYTE_ARRAY annotated STRING",
    "TIMESTAMP": "INT64 annotated TIMESTAMP, adjusted to UTC, milliseconds or microseconds",
}

# BigQuery also supports LZO and raw LZ4, but Spark has no LZO, and pyarrow cannot tell raw LZ4 from LZ4 in frames.
COMPRESSIONS = ("GZIP", "SNAPPY", "UNCOMPRESSED", "ZSTD")
COMPRESSIONS_TEXT = f"one of [{', '.join(COMPRESSIONS)}]"
_MAX_ERROR_CHARACTERS = 300


def holds_type(declared: str, physical: str, logical: dict[str, Any], *, exported: bool = False) -> bool:
    """Whether a leaf holds values of the declared type.

    `declared` is the column's type in the feed file, `physical` the leaf's physical type, `logical` its logical type as
    JSON. `exported`: whether BigQuery wrote the file. BigQuery annotates a TIMESTAMP as not adjusted to UTC, although
    its values are.
    """
    match declared, logical["Type"]:
        case _, "None":
            return (declared, physical) in _NOT_ANNOTATED
        case "DATE", "Date":
            return True
        case (("INT64" | "NUMERIC"), "Int"):
            return bool(logical["isSigned"]) or logical["bitWidth"] < 64  # unsigned 64 bits do not fit INT64
        case "NUMERIC", "Decimal":
            precision, scale = logical["precision"], logical["scale"]
            return bool(scale <= NUMERIC_SCALE and precision - scale <= NUMERIC_INTEGER_DIGITS)
        case "STRING", "String" | "Enum":
            return True
        case (("TIMESTAMP" | "DATETIME"), "Timestamp"):
            # Nanoseconds are refused: BigQuery would truncate them.
            has_known_unit = logical["timeUnit"] in ("milliseconds", "microseconds")
            is_adjusted = declared == "TIMESTAMP"
            return has_known_unit and (logical["isAdjustedToUTC"] is is_adjusted or (exported and is_adjusted))
    return False


def describe_expected(declared: str) -> str:
    """A type of a feed file with the Parquet types that may hold it, for messages."""
    parquet_types = _PARQUET_TYPES.get(declared)
    return f"[{declared}] ({parquet_types})" if parquet_types else f"[{declared}]"


def describe_leaf(physical: str, logical: object) -> str:
    """The physical and logical type of a leaf, for messages: `INT64 Timestamp(isAdjustedToUTC=False, …)`."""
    return f"{physical} {logical}".removesuffix(" None")


def describe_undeclared(name: str, declared_names: Iterable[str]) -> str:
    """The problem, as text, that a file has a column `name` which the feed file does not declare."""
    similar = next((declared for declared in declared_names if declared.lower() == name.lower()), None)
    hint = f": only its case differs from [{similar}], write it as declared" if similar else ""
    return f"column [{name}] is not declared in the feed file{hint}"


def describe_unreadable(error: Exception) -> str:
    """Why a file cannot be read as Parquet. `error`: the reader's error."""
    return " ".join(str(error).split())[:_MAX_ERROR_CHARACTERS].rstrip(".") or type(error).__name__


MAGIC = b"PAR1"
# The footer is followed by its length and the magic.
TRAILER_BYTES = 8
# Most footers are read with one request of this size.
_TAIL_BYTES = 64 << 10
# A key of the footer's key-value pairs, encoded, and one that no reader knows.
_ARROW_SCHEMA, _IGNORED = b"\x18\x0cARROW:schema", b"\x18\x0carrow:schema"


def read_parquet_footer(stream: IO[bytes], size: int) -> bytes | None:
    """The file's footer, as a Parquet file without rows, and without the Arrow schema that its writer may have stored.

    `size`: the file's size in bytes. The end is not sought, because Cloud Storage refuses a request at an object's end.
    None if the file does not end as a Parquet file does.
    """
    if size < TRAILER_BYTES:
        return None
    stream.seek(max(0, size - _TAIL_BYTES))
    tail = stream.read(_TAIL_BYTES)
    length = int.from_bytes(tail[-TRAILER_BYTES:-4], "little") + TRAILER_BYTES
    if not tail.endswith(MAGIC) or length + len(MAGIC) > size:
        return None
    if length > len(tail):
        stream.seek(size - length)
        tail = stream.read(length)
    footer = tail[-length:]
    # The key-value pairs are behind everything else that may contain the same bytes, such as the statistics.
    before, key, after = footer.rpartition(_ARROW_SCHEMA)
    return MAGIC + (before + _IGNORED + after if key else footer)
