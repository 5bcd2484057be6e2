"""Says which Parquet types may hold the values of a BigQuery type, and makes readers follow the types of a file.

The Spark job, the task `resolve_publish` and the SQL engines share these rules. In Parquet only leaves, which are
columns without nested columns, have types: a physical type, such as INT64, and perhaps a logical type, such as
Timestamp, as an annotation.

A footer is a struct in Thrift's compact protocol, of which only the schema is decoded here. Changes keep its length.
Sources: parquet.thrift of Apache Parquet, "Thrift Compact protocol encoding" of Apache Thrift.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
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
_MAX_ERROR_CHARACTERS = 300
# A file that is not Parquet is called a text file if this many of its first bytes are all ASCII.
TEXT_PREFIX_BYTES = 64


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


def describe_unreadable(first: bytes, last: bytes, error: Exception) -> str:
    """Why a file cannot be read as Parquet. `first`, `last`: its first and last bytes. `error`: the reader's error."""
    text = " ".join(str(error).split())[:_MAX_ERROR_CHARACTERS].rstrip(".") or type(error).__name__
    kind = next((kind for start, kind in _FIRST_BYTES.items() if first.startswith(start)), None)
    if kind is None and "crypt" in text.lower():
        kind = _ENCRYPTED
    if kind is None and re.search(r"(codec|compression).*support", text, re.IGNORECASE):
        kind = f"a Parquet file in another compression: use {COMPRESSIONS_TEXT}"
    if kind is None and re.search(r"::FromBigEndian|length for decimal", text):
        kind = "a Parquet file with a DECIMAL in no byte or in more than 16: write it in as few bytes as it needs"
    if kind is None and "child array invalid" in text:
        kind = "a Parquet file with data pages without values, where pyarrow ends the column: write larger data pages"
    if kind is None and first.startswith(_MAGIC) and not last.endswith(_MAGIC):
        kind = "a Parquet file without its end: upload it whole"
    if kind is None and not first.startswith(_MAGIC) and first[:TEXT_PREFIX_BYTES].isascii():
        kind = "a text file"
    return text + (f"; it looks like {kind}" if kind else "")


MAGIC = b"PAR1"
# The footer is followed by its length and the magic.
TRAILER_BYTES = 8
# Most footers are read with one request of this size.
_TAIL_BYTES = 64 << 10
# A key of the footer's key-value pairs, encoded, and one that no reader knows.
_ARROW_SCHEMA, _IGNORED = b"\x18\x0cARROW:schema", b"\x18\x0carrow:schema"

# Thrift's types, and how many bytes a value of each has; those of other types begin with their length, or are numbers.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_FIXED_BYTES = {_TRUE: 0, _FALSE: 0, _BYTE: 1, _DOUBLE: 8}
# Thrift's ids of fields of FileMetaData, SchemaElement, LogicalType and IntType.
_SCHEMA, _CONVERTED_TYPE, _LOGICAL_TYPE, _INTEGER, _BIT_WIDTH, _IS_SIGNED = 2, 6, 10, 10, 1, 2
# ConvertedType UINT_8, UINT_16, INT_8 and INT_16, then INT_32. Whole numbers are encoded as twice their value.
_NARROW, _INT_32 = (22, 24, 30, 32), 34
# The size of a list, if its header has this number in place of it, follows the header.
_LONG_LIST = 15


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


def with_wide_integers(footer: bytes) -> bytes:
    """The same footer with integers of 8 and 16 bits annotated as signed integers of 32 bits, in which they are stored.

    A reader then returns the stored numbers, also those that the annotation excludes. Otherwise pyarrow cuts them off
    without a word. `footer`: as `read_parquet_footer` returns it; it must be one that can be read.
    """
    content = bytearray(footer)
    for element in _Decoder(footer, len(MAGIC)).struct(last_field=_SCHEMA)[_SCHEMA].value:
        converted = element.get(_CONVERTED_TYPE)
        if converted and content[converted.position] in _NARROW:
            content[converted.position] = _INT_32
        logical = element.get(_LOGICAL_TYPE)
        integer = logical.value.get(_INTEGER) if logical else None
        if integer and content[integer.value[_BIT_WIDTH].position] in (8, 16):
            content[integer.value[_BIT_WIDTH].position] = 32
            header = integer.value[_IS_SIGNED].header  # which also holds the value: the type is true or false
            content[header] = content[header] & 0xF0 | _TRUE
    return bytes(content)


@dataclass(frozen=True)
class _Field:
    """A field of a struct: the positions of its header and of its value, and the value if it is a list or struct."""

    header: int
    position: int
    value: Any


@dataclass
class _Decoder:
    """Decodes lists and structs, in which it keeps only the positions of other values."""

    content: bytes
    position: int

    def struct(self, last_field: int | None = None) -> dict[int, _Field]:
        """The fields by id, up to `last_field` if there is one."""
        fields: dict[int, _Field] = {}
        field = 0
        while field != last_field and self.content[self.position]:
            header = self.position
            self.position += 1
            delta, kind = divmod(self.content[header], 16)
            field = field + delta if delta else self._number() >> 1
            fields[field] = _Field(header, self.position, self._value(kind))
        self.position += 1
        return fields

    def _value(self, kind: int) -> Any:
        if kind == _STRUCT:
            return self.struct()
        if kind in (_LIST, _SET):
            size, kind = divmod(self.content[self.position], 16)
            self.position += 1
            size = self._number() if size == _LONG_LIST else size
            return [self._value(kind) for _ in range(size)]
        if kind in _FIXED_BYTES:
            self.position += _FIXED_BYTES[kind]
        else:
            number = self._number()
            self.position += number if kind == _BINARY else 0
        return None

    def _number(self) -> int:
        number = shift = 0
        while (byte := self.content[self.position]) & 0x80:
            self.position += 1
            number |= (byte & 0x7F) << shift
            shift += 7
        self.position += 1
        return number | byte << shift
