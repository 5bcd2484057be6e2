"""Reads the rows of an AppendRows connection: serialized protocol buffer messages, whose fields are named like columns.

Source: "Overview of the Storage Write API", protocol buffer handling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError, Message

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.clock import to_datetime
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import NUMERIC_PRECISION, NUMERIC_SCALE, SCALARS
from bigquery_standin.storage.change_log import CHANGE_TYPE, SEQUENCE_NUMBER, InvalidRows, WrittenRow

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


@dataclass(frozen=True)
class _FieldReader:
    """Reads one column's value from a message.

    A STRUCT has no `convert`, but `readers`, one for each field of its message.
    """

    field: FieldDescriptor
    column: TableField
    convert: Convert | None
    readers: tuple[_FieldReader, ...] = ()

    def read(self, message: Message) -> Any:
        if self.column.mode == "REPEATED":
            return [self._converted(element) for element in getattr(message, self.field.name)]
        return self._converted(getattr(message, self.field.name)) if message.HasField(self.field.name) else None

    def _converted(self, value: Any) -> Any:
        if self.convert is None:
            return _row(value, self.readers)
        try:
            return self.convert(value)
        except (ValueError, ArithmeticError) as error:
            raise ValueError(
                f"Field {self.column.name}: cannot convert [{value!r}] to {self.column.type}: {error}"
            ) from error


class RowReader:
    """Reads the rows of requests for one table."""

    def __init__(self, row_class: type[Message], columns: Sequence[TableField]) -> None:
        """Raises Invalid or NotImplementedConstruct if the writer's fields do not fit the columns."""
        self._class = row_class
        descriptor: Any = row_class.DESCRIPTOR
        self._readers = _field_readers(descriptor, columns, "")
        names = {field.name.upper(): field.name for field in descriptor.fields}
        self._change_type_field, self._sequence_field = names.get(CHANGE_TYPE), names.get(SEQUENCE_NUMBER)

    def read(self, serialized: Sequence[bytes], check: Callable[[Row], None]) -> list[WrittenRow]:
        """The rows of a request. Raises InvalidRows, with an error for each wrong row.

        `check`: raises ValueError for the values of a wrong row.
        """
        rows, wrong = [], {}
        for index, content in enumerate(serialized):
            try:
                message = self._class()
                message.ParseFromString(content)
                row = self._row(message)
                check(row.values)
                rows.append(row)
            except (DecodeError, ValueError) as error:
                wrong[index] = str(error) or "not a row"
        if wrong:
            raise InvalidRows(wrong)
        return rows

    def _row(self, message: Message) -> WrittenRow:
        change_type = _text(message, self._change_type_field)
        row = {reader.column.name: reader.read(message) for reader in self._readers}
        if change_type != "DELETE":  # a DELETE needs only the primary key
            _check_required(row, self._readers)
        return WrittenRow(row, change_type, _text(message, self._sequence_field))


def _text(message: Message, field: str | None) -> str | None:
    return str(getattr(message, field)) if field is not None and message.HasField(field) else None


def _row(message: Message, readers: Sequence[_FieldReader]) -> Row:
    row = {reader.column.name: reader.read(message) for reader in readers}
    _check_required(row, readers)
    return row


def _check_required(row: Row, readers: Sequence[_FieldReader]) -> None:
    for reader in readers:
        if reader.column.mode == "REQUIRED" and row[reader.column.name] is None:
            raise ValueError(f"Field {reader.column.name} is required but has no value")


def _field_readers(message: Descriptor, columns: Sequence[TableField], prefix: str) -> tuple[_FieldReader, ...]:
    """A reader for each field of a message that is a column or a field of a STRUCT column.

    `prefix`: the path of the STRUCT with a dot at its end; "" for columns. Raises Invalid for a field that does not
    fit the columns, and for a missing REQUIRED one.
    """
    unmatched = {column.name.lower(): column for column in columns}
    readers = []
    for field in message.fields:
        column = unmatched.pop(field.name.lower(), None)
        if column is not None:
            readers.append(_field_reader(field, column, prefix))
        elif prefix or field.name.upper() not in (CHANGE_TYPE, SEQUENCE_NUMBER):
            raise Invalid(
                f"The source object has fields unknown to BigQuery: {prefix}{field.name}. "
                "Add the column to the table or leave the field out."
            )
    for column in unmatched.values():
        if column.mode == "REQUIRED":
            raise Invalid(f"Proto schema lacks the required field {prefix}{column.name}: add it.")
    return tuple(readers)


def _field_reader(field: FieldDescriptor, column: TableField, prefix: str) -> _FieldReader:
    name = prefix + column.name
    if field.is_repeated != (column.mode == "REPEATED"):
        raise Invalid(
            f"Proto field {name} is [{'repeated' if field.is_repeated else 'singular'}], but the column is "
            f"[{column.mode}]: declare the field as the column is."
        )
    if column.type == "STRUCT" and field.message_type is not None:
        readers = _field_readers(field.message_type, column.fields, f"{name}.")
        return _FieldReader(field, column, None, readers)
    kinds, convert = _CONVERSIONS.get(column.type, ((), _same))
    if field.type not in kinds:
        kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)  # type: ignore[arg-type]  # a number of its enum
        raise NotImplementedConstruct(f"proto field {name} of {kind} for {column.type}")
    return _FieldReader(field, column, convert)
