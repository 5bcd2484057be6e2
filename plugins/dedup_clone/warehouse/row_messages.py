"""Converts rows to protocol buffer messages for BigQuery's Storage Write API.

BigQuery's page "Supported protocol buffer data types" defines their form. Each message also has the pseudocolumns of
change data capture, which say that the row replaces the row of its key, or that the table loses the row of this key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.table import Column, ColumnMode

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

CHANGE_TYPE, CHANGE_SEQUENCE_NUMBER = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"
UPSERT, DELETE = "UPSERT", "DELETE"
_EPOCH_DAY, _EPOCH = date(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# For each BigQuery type except STRUCT, the type in messages, and the function that converts a value.
_SCALARS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "BOOL": ("TYPE_BOOL", bool),
    "BYTES": ("TYPE_BYTES", bytes),
    "DATE": ("TYPE_INT32", lambda day: (day - _EPOCH_DAY).days),
    "DATETIME": ("TYPE_STRING", lambda moment: moment.isoformat(sep=" ")),
    "FLOAT64": ("TYPE_DOUBLE", float),
    "INT64": ("TYPE_INT64", int),
    "NUMERIC": ("TYPE_STRING", lambda number: f"{Decimal(number):f}"),
    "STRING": ("TYPE_STRING", str),
    "TIMESTAMP": ("TYPE_INT64", lambda moment: (moment - _EPOCH) // _MICROSECOND),
}


def sequence_number(*sections: int) -> str:
    """A value of `_CHANGE_SEQUENCE_NUMBER`: one to four hexadecimal sections, which are compared from left to right.

    Of several changes of one key, the one with the highest number counts.
    """
    return "/".join(f"{section:X}" for section in sections)


class RowMessages:
    """Converts the rows of a table with these columns to messages."""

    def __init__(self, columns: Iterable[Column]) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message_factory import GetMessageClass

        file = FileDescriptorProto(name="rows.proto", syntax="proto2")
        pseudocolumns = (Column(CHANGE_TYPE, "STRING"), Column(CHANGE_SEQUENCE_NUMBER, "STRING"))
        columns = tuple(columns)
        _describe(file.message_type.add(name="Row"), (*columns, *pseudocolumns), "Row")
        pool = DescriptorPool()
        pool.Add(file)
        self._message = GetMessageClass(pool.FindMessageTypeByName("Row"))
        self._convert = _struct_converter(columns)

    def descriptor(self) -> DescriptorProto:
        """The description of a message, which the first request of a connection sends."""
        from google.protobuf.descriptor_pb2 import DescriptorProto

        described = DescriptorProto()
        self._message.DESCRIPTOR.CopyToProto(described)
        return described

    def change(self, row: Mapping[str, Any], sequence: str, change_type: str = UPSERT) -> bytes:
        """The message that makes `row` the row of its key, unless a change of the key has a higher sequence number.

        With `change_type` DELETE the key loses its row; `row` then needs the key columns only.
        """
        values = self._convert(row)
        values[CHANGE_TYPE], values[CHANGE_SEQUENCE_NUMBER] = change_type, sequence
        serialized: bytes = self._message(**values).SerializeToString()
        return serialized


def _describe(message: DescriptorProto, columns: Iterable[Column], path: str) -> None:
    """Add a field for each column, and a nested message for each STRUCT. `path`: the message's full name."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    for number, column in enumerate(columns, start=1):
        repeated = column.mode is ColumnMode.REPEATED
        label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
        field: FieldDescriptorProto = message.field.add(name=column.name, number=number, label=label)
        if column.type == "STRUCT":
            # A field and a nested message of one message must not have the same name.
            nested = f"Struct{number}_{column.name}"
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{path}.{nested}"
            _describe(message.nested_type.add(name=nested), column.fields, f"{path}.{nested}")
        else:
            field.type = FieldDescriptorProto.Type.Value(_SCALARS[column.type][0])


def _struct_converter(columns: tuple[Column, ...]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """A function that converts a dict of values by column name. It leaves NULLs out: an absent field is NULL."""
    converters = [(column.name, _converter(column)) for column in columns]

    def convert(row: Mapping[str, Any]) -> dict[str, Any]:
        return {name: to_field(row[name]) for name, to_field in converters if row.get(name) is not None}

    return convert


def _converter(column: Column) -> Callable[[Any], Any]:
    one: Callable[[Any], Any]
    one = _struct_converter(column.fields) if column.type == "STRUCT" else _SCALARS[column.type][1]
    return (lambda values: [one(value) for value in values]) if column.mode is ColumnMode.REPEATED else one
