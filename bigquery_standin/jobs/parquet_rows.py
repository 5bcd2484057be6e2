"""Reads Parquet files as rows of a table, and makes them readable as temporary external tables of a query job.

Files whose columns do not fit the declared schema are refused. Each external table becomes a table version, so that it
is read and billed like other tables. Its segments (stored Parquet files) are deleted when the job ends. If the query
names the pseudo column `_FILE_NAME`, it is a column of the version, and contains the source URI of each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.jobs.destination_table import check_schema
from bigquery_standin.jobs.job_configuration import UNSET_VALUES, SourceFiles, parse_source_files
from bigquery_standin.jobs.object_store import ObjectStore
from bigquery_standin.sql.field_types import TableField, field_from_arrow
from bigquery_standin.storage.model import WHOLE_TABLE, Partition, Segment, TableSettings, TableVersion
from bigquery_standin.storage.segment_store import WriteRows, column_bytes, conform

FILE_NAME = "_FILE_NAME"  # the pseudo column of external tables
_READ_ERROR = "Error while reading data, error message:"
# A key of a footer's key-value pairs in Thrift's compact protocol, and one of the same length that no reader knows.
_ARROW_SCHEMA, _IGNORED = b"\x18\x0cARROW:schema", b"\x18\x0carrow:schema"


class ParquetSource:
    """A file. `fields`: its columns as BigQuery infers them.

    A declared schema may have DATETIME where `fields` has TIMESTAMP, if the file's times are not adjusted to UTC.
    `list_inference`, `enum_as_string`: the job's `parquetOptions`. Raises Invalid for a file that is not Parquet,
    NotImplementedConstruct for an unsupported type and, without `list_inference`, for a LIST, also in a STRUCT.
    """

    def __init__(self, uri: str, content: bytes, options: SourceFiles) -> None:
        self.uri = uri
        try:
            reader = pa.BufferReader(_without_arrow_schema(content))
            self._file = pq.ParquetFile(reader, coerce_int96_timestamp_unit="us")
            schema = self._file.schema_arrow
            leaves = iter([self._file.schema.column(number) for number in range(len(self._file.schema))])
            if options.enum_as_string:
                schema = pa.schema([_with_enums_as_strings(field, leaves) for field in schema])
            self._fields_with_datetime = tuple(map(field_from_arrow, schema))
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
        columns = {column.name.lower(): column for column in declared}
        fields = [_as_declared(field, columns.get(field.name.lower(), field)) for field in self._fields_with_datetime]
        check_schema(f"{_READ_ERROR} File {self.uri} does not fit the schema.", declared, fields, modes=False)

    def rows(self, declared: Sequence[TableField]) -> pa.Table:
        """The file's rows in the declared columns. Raises Invalid for a value that does not fit."""
        try:
            return conform(self._file.read(), declared)
        except (pa.ArrowException, OSError) as error:
            raise Invalid(f"{_READ_ERROR} {error} File: {self.uri}") from error
        except Invalid as error:
            raise Invalid(f"{_READ_ERROR} {error.message} File: {self.uri}") from error


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


# The supported fields of a definition; any other field is refused by name.
DEFINITION_FIELDS = ("sourceFormat", "sourceUris", "fileSetSpecType", "parquetOptions")
_PARQUET_OPTIONS = ("enableListInference", "enumAsString")


def parse_table_definitions(definitions: Mapping[str, Any]) -> dict[str, SourceFiles]:
    """The files of each definition in `configuration.query.tableDefinitions`, by lower-case name.

    Raises Invalid for what BigQuery does not accept, NotImplementedConstruct for what the stand-in does not support.
    """
    parsed: dict[str, SourceFiles] = {}
    for name, definition in definitions.items():
        if name.lower() in parsed:
            raise Invalid(f"Table definition [{name}] is given twice: names do not differ by case.")
        parsed[name.lower()] = _definition(f"tableDefinitions.{name}", definition)
    return parsed


def _definition(path: str, definition: Mapping[str, Any]) -> SourceFiles:
    if definition.get("schema"):
        # Source: REST resource tables, ExternalDataConfiguration.schema.
        raise Invalid(f"Schema is disallowed for Parquet formats: leave {path}.schema out.")
    if definition.get("sourceFormat") != "PARQUET":
        raise NotImplementedConstruct(f"{path}.sourceFormat {definition.get('sourceFormat')}")
    options = (definition.get("parquetOptions") or {}).items()
    unsupported = {
        **{key: value for key, value in definition.items() if key not in DEFINITION_FIELDS},
        **{f"parquetOptions.{key}": value for key, value in options if key not in _PARQUET_OPTIONS},
    }
    for key, value in unsupported.items():
        if value not in UNSET_VALUES:
            raise NotImplementedConstruct(f"{path}.{key}")
    return parse_source_files(path, definition)


class ExternalTables:
    """The external tables of one job. Each is read from the object store when it is first used.

    Its schema is that of the alphabetically last file. `write`: writes temporary segments. `has_file_names`: whether
    the tables have the column `_FILE_NAME`.
    """

    def __init__(
        self, definitions: Mapping[str, SourceFiles], objects: ObjectStore, write: WriteRows, has_file_names: bool
    ) -> None:
        self._definitions = definitions
        self._objects = objects
        self._write = write
        self._has_file_names = has_file_names
        self._opened: dict[str, TableVersion] = {}

    def open(self, name: str) -> TableVersion | None:
        """The table, or None if the job defines none of this name."""
        key = name.lower()
        if key in self._definitions and key not in self._opened:
            self._opened[key] = self._read(self._definitions[key])
        return self._opened.get(key)

    def _read(self, sources: SourceFiles) -> TableVersion:
        files = self._objects.resolve(sources.uris, sources.is_manifest)
        last = files[-1]
        schema = ParquetSource(last.uri, self._objects.read(last), sources).fields
        segments: list[Segment] = []
        for file in files:
            source = ParquetSource(file.uri, self._objects.read(file), sources)
            source.check(schema)
            rows = source.rows(schema)
            segment = self._write(self._with_file_name(rows, file.uri))
            segments.append(replace(segment, column_bytes=column_bytes(rows)))  # the name of the file is not billed
        columns = (*schema, TableField(FILE_NAME, "STRING")) if self._has_file_names else schema
        return TableVersion(1, 0, 0, TableSettings(columns), {WHOLE_TABLE: Partition(tuple(segments), 0)})

    def _with_file_name(self, rows: pa.Table, uri: str) -> pa.Table:
        names = pa.array([uri] * rows.num_rows, pa.string())
        return rows.append_column(FILE_NAME, names) if self._has_file_names else rows
