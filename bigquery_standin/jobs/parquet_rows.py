"""Reads Parquet files as rows of a table, and refuses files whose columns do not fit the declared schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.jobs.job_configuration import SourceFiles
from bigquery_standin.sql.field_types import TableField, from_arrow_schema
from bigquery_standin.storage.arrow_schema import conform, is_canonical

_READ_ERROR = "Error while reading data, error message:"
# A key of a footer's key-value pairs in Thrift's compact protocol, and one of the same length that no reader knows.
_ARROW_SCHEMA, _IGNORED = b"\x18\x0cARROW:schema", b"\x18\x0carrow:schema"


class ParquetSource:
    """A file. `fields`: its columns as BigQuery infers them. `content`: without the Arrow schema of its writer.

    A declared schema may have DATETIME where `fields` has TIMESTAMP, if the file's times are not adjusted to UTC.
    `list_inference`, `enum_as_string`: the job's `parquetOptions`. Raises Invalid for a file that is not Parquet,
    NotImplementedConstruct for an unsupported type and, without `list_inference`, for a LIST, also in a STRUCT.
    """

    def __init__(self, uri: str, content: bytes, options: SourceFiles) -> None:
        self.uri = uri
        self.content = _without_arrow_schema(content)
        try:
            self._file = pq.ParquetFile(pa.BufferReader(self.content), coerce_int96_timestamp_unit="us")
            self.schema = self._file.schema_arrow
            leaves = iter([self._file.schema.column(number) for number in range(len(self._file.schema))])
            schema = (
                pa.schema([_with_enums_as_strings(field, leaves) for field in self.schema])
                if options.enum_as_string
                else self.schema
            )
            self._fields_with_datetime = from_arrow_schema(schema)
            self.fields = _without_datetime(self._fields_with_datetime)
        except (pa.ArrowInvalid, OSError) as error:  # OSError: the footer cannot be decoded
            raise Invalid(
                f"{_READ_ERROR} Input file is not in Parquet format or is damaged. {error} File: {uri}"
            ) from error
        repeated = _first_repeated(self.fields)
        if repeated is not None and not options.list_inference:
            # BigQuery would read it as a RECORD with an inner [list].
            raise NotImplementedConstruct(f"Parquet LIST column {repeated} without parquetOptions.enableListInference")

    def check(self, declared: Sequence[TableField]) -> None:
        """Raises Invalid if the file has columns or types that are not declared, or lacks a REQUIRED column."""
        unmatched = {field.name.lower(): field for field in self.fields}
        as_datetime = {field.name.lower(): field for field in self._fields_with_datetime}
        for column in declared:
            field = unmatched.pop(column.name.lower(), None)
            if field is None:
                if column.mode == "REQUIRED":
                    raise Invalid(f"{_READ_ERROR} Required field [{column.name}] is missing. File: {self.uri}")
                continue
            file_field = _as_declared(as_datetime[field.name.lower()], column)
            if column.sql_type().lower() != file_field.sql_type().lower():
                raise Invalid(
                    f"{_READ_ERROR} Parquet column '{column.name}' has type [{field.sql_type()}] which does not "
                    f"match the target type [{column.sql_type()}]. File: {self.uri}"
                )
        if unmatched:
            raise Invalid(
                f"{_READ_ERROR} Parquet columns [{', '.join(field.name for field in unmatched.values())}] are not in "
                f"the table's schema: add them to the schema or leave them out of the file. File: {self.uri}"
            )

    def rows(self, declared: Sequence[TableField]) -> pa.Table:
        """The file's rows in the declared columns. Raises Invalid for a value that does not fit."""
        try:
            return conform(self._file.read(), declared)
        except (pa.ArrowException, OSError) as error:
            raise Invalid(f"{_READ_ERROR} {error} File: {self.uri}") from error
        except Invalid as error:
            raise Invalid(f"{_READ_ERROR} {error.message} File: {self.uri}") from error

    def can_be_stored_as_is(self, declared: Sequence[TableField]) -> bool:
        """Whether the table can store the file itself, because its rows need no conversion."""
        return is_canonical(self.schema, declared)


def _without_arrow_schema(content: bytes) -> bytes:
    """The file with its Arrow schema under another key: BigQuery reads a file by Parquet's own schema."""
    footer_start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    position = content.rfind(_ARROW_SCHEMA, max(0, footer_start))
    if position < 0:
        return content
    return content[:position] + _IGNORED + content[position + len(_IGNORED) :]


def _first_repeated(fields: Sequence[TableField], prefix: str = "") -> str | None:
    """The path of the first field that is REPEATED, at any depth; None if there is none."""
    for field in fields:
        path = prefix + field.name
        found = path if field.mode == "REPEATED" else _first_repeated(field.fields, f"{path}.")
        if found is not None:
            return found
    return None


def _as_declared(field: TableField, column: TableField) -> TableField:
    """The field of a file. A time that is not adjusted to UTC gets the column's type, TIMESTAMP or DATETIME."""
    is_either = field.type == "DATETIME" and column.type in ("DATETIME", "TIMESTAMP")
    declared = {child.name.lower(): child for child in column.fields}
    fields = tuple(_as_declared(child, declared.get(child.name.lower(), child)) for child in field.fields)
    return replace(field, type=column.type if is_either else field.type, fields=fields)


def _without_datetime(fields: Sequence[TableField]) -> tuple[TableField, ...]:
    """The fields with TIMESTAMP in place of DATETIME, because BigQuery reads every INT64 TIMESTAMP as TIMESTAMP.

    Source: "Loading Parquet data", type conversions.
    """
    return tuple(
        replace(
            field, type="TIMESTAMP" if field.type == "DATETIME" else field.type, fields=_without_datetime(field.fields)
        )
        for field in fields
    )


def _with_enums_as_strings(field: pa.Field, leaves: Iterator[pq.ColumnSchema]) -> pa.Field:
    """The field with strings in place of leaves that are annotated ENUM, which Arrow reads as binary.

    `leaves`: the file's leaf columns, from the first one of this field on.
    """
    kind = field.type
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_with_enums_as_strings(child, leaves) for child in kind]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_with_enums_as_strings(kind.value_field, leaves)))
    return field.with_type(pa.string()) if next(leaves).logical_type.type == "ENUM" else field
