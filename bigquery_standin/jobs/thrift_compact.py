"""Decodes and encodes Thrift's compact protocol, the format of a Parquet file's footer, without Parquet's definitions.

A struct is a dict of field id to (type, value), in the order of the ids. The value of a list is (type of its elements,
elements). Whole numbers stay as they are encoded (zigzag). Source: "Thrift Compact protocol encoding" of Apache Thrift.
"""

from __future__ import annotations

import io
from typing import Any

_TRUE, _FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12
_FIXED_BYTES = {BYTE: 1, DOUBLE: 8}
_WHOLE_NUMBERS = (I16, I32, I64)
# In a list's header, 15 in place of the size means that the size is 15 or more and follows as a varint. Field ids whose
# difference is 15 or more are not encoded here.
_LONG = 15

Struct = dict[int, tuple[int, Any]]


def decode_struct(stream: io.BytesIO) -> Struct:
    struct: Struct = {}
    field_id = 0
    while (header := stream.read(1)[0]) != 0:
        field_id = field_id + (header >> 4) if header >> 4 else _unzigzag(_varint(stream))
        struct[field_id] = (header & 15, _decode(header & 15, stream))
    return struct


def encode_struct(struct: Struct) -> bytes:
    encoded, last_id = b"", 0
    for field_id, (kind, value) in struct.items():
        assert 0 < field_id - last_id < _LONG
        encoded += bytes([(field_id - last_id) << 4 | kind]) + _encode(kind, value)
        last_id = field_id
    return encoded + b"\0"


def _decode(kind: int, stream: io.BytesIO) -> Any:
    if kind in (_TRUE, _FALSE):  # the type itself says whether a boolean field is true
        return None
    if kind in _FIXED_BYTES:
        return stream.read(_FIXED_BYTES[kind])
    if kind in _WHOLE_NUMBERS:
        return _varint(stream)
    if kind == BINARY:
        return stream.read(_varint(stream))
    if kind in (LIST, SET):
        header = stream.read(1)[0]
        size = _varint(stream) if header >> 4 == _LONG else header >> 4
        element = header & 15
        if element in (_TRUE, _FALSE):
            return element, [stream.read(1) for _ in range(size)]
        return element, [_decode(element, stream) for _ in range(size)]
    if kind == STRUCT:
        return decode_struct(stream)
    raise ValueError(f"Thrift type [{kind}] is not decoded here.")


def _encode(kind: int, value: Any) -> bytes:
    if kind in (_TRUE, _FALSE):
        return b""
    if kind in _FIXED_BYTES:
        return bytes(value)
    if kind in _WHOLE_NUMBERS:
        return _to_varint(value)
    if kind == BINARY:
        return _to_varint(len(value)) + bytes(value)
    if kind in (LIST, SET):
        element, items = value
        is_short = len(items) < _LONG
        size_and_type = bytes([(len(items) if is_short else _LONG) << 4 | element])
        header = size_and_type if is_short else size_and_type + _to_varint(len(items))
        if element in (_TRUE, _FALSE):
            return header + b"".join(items)
        return header + b"".join(_encode(element, item) for item in items)
    struct: Struct = value
    return encode_struct(struct)


def zigzag(number: int) -> int:
    """A number of 0 or more, as it is encoded."""
    return number << 1


def _unzigzag(encoded: int) -> int:
    return encoded >> 1 ^ -(encoded & 1)


def _varint(stream: io.BytesIO) -> int:
    number = shift = 0
    while (byte := stream.read(1)[0]) & 0x80:
        number |= (byte & 0x7F) << shift
        shift += 7
    return number | byte << shift


def _to_varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
