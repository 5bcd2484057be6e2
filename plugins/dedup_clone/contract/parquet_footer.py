"""Changes a Parquet footer so that a reader follows the types of the file, not the hints of the program that wrote it.

A footer is a struct in Thrift's compact protocol, of which only the schema is decoded here. Changes keep its length.
Sources: parquet.thrift of Apache Parquet, "Thrift Compact protocol encoding" of Apache Thrift.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO, Any

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
