"""Reads the rows of an AppendRows connection: serialized protocol buffer messages, whose fields are named like columns.

Source: "Overview of the Storage Write API", protocol buffer handling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError, Message

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.clock import to_datetime
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import NUMERIC_PRECISION, NUMERIC_SCALE, SCALARS
from bigquery_standin.storage.streamed_rows import CHANGE_TYPE, SEQUENCE_NUMBER, InvalidRows, WrittenRow

Row = dict[str, Any]
Convert = Callable[[Any], Any]  # raises ValueError or ArithmeticError for a value that the type does not have
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # of a DATE, in days since 1970
_NUMERIC_BOUND = Decimal(10) ** (NUMERIC_PRECISION - NUMERIC_SCALE)
_EXACT = Context(prec=2 * NUMERIC_PRECISION)  # Python's default has fewer digits than a NUMERIC


def _date(days: int) -> date:
    if not _FIRST_DAY <= days <= _LAST_DAY:
        raise ValueError(f"a DATE has days from {_FIRST_DAY} to {_LAST_DAY} since 1970-01-01")
    return date(1970, 1, 1) + timedelta(days)


def _numeric(text: str) -> Decimal:
    rounded = Decimal(text).quantize(Decimal(1).scaleb(-NUMERIC_SCALE), ROUND_HALF_UP, _EXACT)
    if not -_NUMERIC_BOUND < rounded < _NUMERIC_BOUND:
        raise ValueError("a NUMERIC has at most 29 digits before the point")
    return rounded


def _same(value: Any) -> Any:
    return value


# By type of the column: the types of fields that the stand-in takes for it, and how their values are converted.
# BigQuery takes more. Source: "Supported protocol buffer and Arrow data types".
_INT32, _INT64, _TEXT = FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_STRING
_CONVERSIONS: dict[str, tuple[tuple[int, ...], Convert]] = {
    "BOOL": ((FieldDescriptor.TYPE_BOOL,), _same),
    "BYTES": ((FieldDescriptor.TYPE_BYTES,), _same),
    "DATE": ((_INT32, _INT64), _date),
    "DATETIME": ((_TEXT,), SCALARS["DATETIME"].parse),
    "FLOAT64": ((FieldDescriptor.TYPE_DOUBLE,), _same),
    "INT64": ((_INT64,), _same),
    "NUMERIC": ((_TEXT,), _numeric),
    "STRING": ((_TEXT,), _same),
    "TIMESTAMP": ((_INT64,), to_datetime),
}


def message_class(schema: DescriptorProto) -> type[Message]:
    """The class of a connection's rows. Raises Invalid if `schema` is no valid proto2 or lacks a type it uses."""
    pool = descriptor_pool.DescriptorPool()
    file = FileDescriptorProto(name="writer_schema.proto", syntax="proto2")
    file.message_type.append(schema)
    try:
        pool.AddSerializedFile(file.SerializeToString())
        descriptor = pool.FindMessageTypeByName(schema.name)
    except (KeyError, TypeError) as error:
        raise Invalid(
            f"Invalid proto schema: {error}. Send a proto2 descriptor without a package, with all types that it uses."
        ) from error
    return message_factory.GetMessageClass(descriptor)


class RowReader:
    """Reads the rows of requests for one table."""

    def __init__(self, row_class: type[Message], columns: Sequence[TableField]) -> None:
        """Raises Invalid or NotImplementedConstruct if the writer's fields do not fit the columns."""
        self._class, self._columns = row_class, columns
        _check_fields(row_class.DESCRIPTOR, columns, "")  # type: ignore[arg-type]  # its stub has no type

    def read(self, serialized: Sequence[bytes]) -> list[WrittenRow]:
        """The rows of a request. Raises InvalidRows, with an error for each wrong row."""
        rows, wrong = [], {}
        for index, content in enumerate(serialized):
            try:
                message = self._class()
                message.ParseFromString(content)
                rows.append(self._row(message))
            except (DecodeError, ValueError) as error:
                wrong[index] = str(error) or "not a row"
        if wrong:
            raise InvalidRows(wrong)
        return rows

    def _row(self, message: Message) -> WrittenRow:
        fields = _fields(message.DESCRIPTOR)
        change_type, sequence_number = (
            str(getattr(message, fields[name.lower()].name))
            if name.lower() in fields and message.HasField(fields[name.lower()].name)
            else None
            for name in (CHANGE_TYPE, SEQUENCE_NUMBER)
        )
        # A DELETE needs only the primary key.
        row = _record(message, self._columns, has_all=change_type != "DELETE")
        return WrittenRow(row, change_type, sequence_number)


@lru_cache
def _fields(descriptor: Any) -> dict[str, FieldDescriptor]:
    """The fields of a message by lower-case name: names of columns are case-insensitive."""
    return {field.name.lower(): field for field in descriptor.fields}


def _record(message: Message, columns: Sequence[TableField], *, has_all: bool = True) -> Row:
    """The values of a row or a STRUCT. Raises ValueError for a wrong one and, if `has_all`, for a missing one."""
    fields, row = _fields(message.DESCRIPTOR), Row()
    for column in columns:
        field = fields.get(column.name.lower())
        if field is not None and column.mode == "REPEATED":
            row[column.name] = [_value(element, column) for element in getattr(message, field.name)]
        elif field is not None and message.HasField(field.name):
            row[column.name] = _value(getattr(message, field.name), column)
        elif has_all and column.mode == "REQUIRED":
            raise ValueError(f"Field {column.name} is required but has no value")
    return row


def _value(value: Any, column: TableField) -> Any:
    if column.type == "STRUCT":
        return _record(value, column.fields)
    try:
        return _CONVERSIONS[column.type][1](value)
    except (ValueError, ArithmeticError) as error:
        raise ValueError(f"Field {column.name}: cannot convert [{value!r}] to {column.type}: {error}") from error


def _check_fields(message: Descriptor, columns: Sequence[TableField], prefix: str) -> None:
    """Raises Invalid for a field that does not fit the columns or fields of a STRUCT, and for a missing REQUIRED one.

    `prefix`: the path of the STRUCT with a dot at its end; "" for columns.
    """
    unmatched = {column.name.lower(): column for column in columns}
    for field in message.fields:
        column = unmatched.pop(field.name.lower(), None)
        if column is not None:
            _check_field(field, column, prefix + column.name)
        elif prefix or field.name.upper() not in (CHANGE_TYPE, SEQUENCE_NUMBER):
            raise Invalid(
                f"The source object has fields unknown to BigQuery: {prefix}{field.name}. "
                "Add the column to the table or leave the field out."
            )
    for column in unmatched.values():
        if column.mode == "REQUIRED":
            raise Invalid(f"Proto schema lacks the required field {prefix}{column.name}: add it.")


def _check_field(field: FieldDescriptor, column: TableField, name: str) -> None:
    if field.is_repeated != (column.mode == "REPEATED"):
        raise Invalid(
            f"Proto field {name} is [{'repeated' if field.is_repeated else 'singular'}], but the column is "
            f"[{column.mode}]: declare the field as the column is."
        )
    if column.type == "STRUCT" and field.message_type is not None:
        _check_fields(field.message_type, column.fields, f"{name}.")
    elif field.type not in _CONVERSIONS.get(column.type, ((),))[0]:
        kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)  # type: ignore[arg-type]  # a number of its enum
        raise NotImplementedConstruct(f"proto field {name} of {kind} for {column.type}")
