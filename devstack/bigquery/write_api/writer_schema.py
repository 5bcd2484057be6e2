"""The schema of a connection's rows: a protocol buffer message whose fields are columns of the table.

Source: "Overview of the Storage Write API", protocol buffer handling.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from google.cloud.bigquery_storage_v1.types import RowError
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError, Message

from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.change_log import CHANGE_TYPE, SEQUENCE_NUMBER
from devstack.bigquery.write_api.protobuf_values import Convert, conversion, kind_of
from devstack.bigquery.write_api.storage_errors import Code, RowsRefused, invalid_argument

Row = dict[str, Any]


def message_class(schema: DescriptorProto) -> type[Message]:
    """The class of a connection's rows. Raises WriteApiError unless the descriptor is complete in itself, in proto2."""
    pool = descriptor_pool.DescriptorPool()
    file = FileDescriptorProto(name="writer_schema.proto", syntax="proto2")
    file.message_type.append(schema)
    for known in (timestamp_pb2.DESCRIPTOR, wrappers_pb2.DESCRIPTOR):
        pool.AddSerializedFile(known.serialized_pb)
        file.dependency.append(known.name)
    try:
        pool.AddSerializedFile(file.SerializeToString())
        descriptor = pool.FindMessageTypeByName(schema.name)
    except (KeyError, TypeError) as error:
        raise invalid_argument(
            f"Invalid proto schema: {error}. Send a proto2 descriptor without a package, with all types that it uses."
        ) from error
    return message_factory.GetMessageClass(descriptor)


@dataclass(frozen=True)
class _Value:
    """How one column gets its value. `convert`: None for a STRUCT, which has `fields`."""

    field: FieldDescriptor
    column: TableField
    convert: Convert | None
    fields: tuple[_Value, ...] = ()

    def of(self, message: Message) -> Any:
        if self.column.mode == "REPEATED":
            return [self._one(element) for element in getattr(message, self.field.name)]
        return self._one(getattr(message, self.field.name)) if message.HasField(self.field.name) else None

    def _one(self, value: Any) -> Any:
        if self.convert is None:
            return _row(value, self.fields)
        try:
            return self.convert(value)
        except (ValueError, OverflowError, ArithmeticError, KeyError) as error:
            raise ValueError(
                f"Field {self.column.name}: cannot convert [{value!r}] to {self.column.type}: {error}"
            ) from error


@dataclass(frozen=True)
class WrittenRow:
    """One row of a request: its values by column name, and its `_CHANGE_TYPE` and `_CHANGE_SEQUENCE_NUMBER`, if any."""

    values: Row
    kind: str | None
    sequence: str | None


class RowReader:
    """Reads the rows of requests for one table. Raises WriteApiError if the writer's fields do not fit the table."""

    def __init__(self, rows: type[Message], columns: Sequence[TableField], stream: str) -> None:
        self._class = rows
        descriptor: Any = rows.DESCRIPTOR
        self._values = _values(descriptor, columns, stream, "")
        names = {field.name.upper(): field.name for field in descriptor.fields}
        self._kind, self._sequence = names.get(CHANGE_TYPE), names.get(SEQUENCE_NUMBER)

    @property
    def may_have_changes(self) -> bool:
        """Whether the rows have a `_CHANGE_TYPE`, of change data capture."""
        return self._kind is not None

    def read(self, serialized: Sequence[bytes], check: Callable[[Row], None]) -> list[WrittenRow]:
        """The rows of a request. Raises RowsRefused, with an error for each wrong row.

        `check`: raises ValueError for the values of a wrong row.
        """
        rows, errors = [], []
        for index, content in enumerate(serialized):
            try:
                message = self._class()
                message.ParseFromString(content)
                row = self._row(message)
                check(row.values)
                rows.append(row)
            except (DecodeError, ValueError) as error:
                errors.append(
                    RowError(index=index, code=RowError.RowErrorCode.FIELDS_ERROR, message=str(error) or "not a row")
                )
        if errors:
            raise RowsRefused(errors)
        return rows

    def _row(self, message: Message) -> WrittenRow:
        kind, sequence = _text(message, self._kind), _text(message, self._sequence)
        row = {value.column.name: value.of(message) for value in self._values}
        if kind != "DELETE":  # of which only the primary key counts
            _check_required(row, self._values)
        return WrittenRow(row, kind, sequence)


def _text(message: Message, field: str | None) -> str | None:
    return str(getattr(message, field)) if field is not None and message.HasField(field) else None


def _row(message: Message, values: Sequence[_Value]) -> Row:
    row = {value.column.name: value.of(message) for value in values}
    _check_required(row, values)
    return row


def _check_required(row: Row, values: Sequence[_Value]) -> None:
    for value in values:
        if value.column.mode == "REQUIRED" and row[value.column.name] is None:
            raise ValueError(f"Field {value.column.name} is required but has no value")


def _values(message: Descriptor, columns: Sequence[TableField], stream: str, prefix: str) -> tuple[_Value, ...]:
    known = {column.name.lower(): column for column in columns}
    values = []
    for field in message.fields:
        column = known.pop(field.name.lower(), None)
        if column is not None:
            values.append(_value(field, column, stream, prefix))
        elif prefix or field.name.upper() not in (CHANGE_TYPE, SEQUENCE_NUMBER):
            raise invalid_argument(
                f"The source object has fields unknown to BigQuery: {prefix}{field.name}. "
                "Add the column to the table or leave the field out.",
                Code.SCHEMA_MISMATCH_EXTRA_FIELDS,
                stream,
            )
    for column in known.values():
        if column.mode == "REQUIRED":
            raise invalid_argument(f"Proto schema lacks the required field {prefix}{column.name}: add it.")
    return tuple(values)


def _value(field: FieldDescriptor, column: TableField, stream: str, prefix: str) -> _Value:
    name = prefix + column.name
    if field.is_repeated != (column.mode == "REPEATED"):
        raise invalid_argument(
            f"Proto field {name} is [{'repeated' if field.is_repeated else 'singular'}], but the column is "
            f"[{column.mode}]: declare the field as the column is."
        )
    if column.type == "STRUCT":
        if field.message_type is not None:
            return _Value(field, column, None, _values(field.message_type, column.fields, stream, f"{name}."))
        convert = None
    else:
        convert = conversion(field, column)
    if convert is None:
        raise invalid_argument(
            f"Proto field {name} has type [{kind_of(field)}], which cannot be converted to [{column.type}]: "
            "use a type that BigQuery's list of supported protocol buffer data types has for the column."
        )
    return _Value(field, column, convert)
