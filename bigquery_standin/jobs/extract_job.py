"""Runs extract jobs, which write a table or one of its partitions to the object store as Parquet files.

A TIMESTAMP is not adjusted to UTC, FLOAT64 becomes FLOAT (32 bits), and a REPEATED column becomes a repeated field or
group, not a LIST. pyarrow can write only LISTs. A required LIST of required elements has the same pages as a repeated
field, so this module lets pyarrow write such a LIST, and then changes only the footer. Source: "Export table data to
Cloud Storage", Parquet export details.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from bigquery_standin.jobs.job_configuration import parse_extract_configuration
from bigquery_standin.jobs.job_runner import JobContext
from bigquery_standin.jobs.object_store import ObjectStore
from bigquery_standin.jobs.thrift_compact import (
    BINARY,
    I32,
    LIST,
    STRUCT,
    Struct,
    decode_struct,
    encode_struct,
    zigzag,
)
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.storage.access import Caller, Grants, check_read
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import Segment
from bigquery_standin.storage.segment_store import arrow_type
from bigquery_standin.storage.table_rules import check_is_partitioned


class ExtractJob:
    """Runs extract jobs."""

    def __init__(self, catalog: Catalog, objects: ObjectStore, grants: Grants) -> None:
        self._catalog = catalog
        self._objects = objects
        self._grants = grants

    def __call__(self, context: JobContext) -> Mapping[str, Any]:
        config = parse_extract_configuration(context.record.configuration["extract"])
        version = self._catalog.get(config.table)
        check_read(Caller(context.record.user, self._grants), self._catalog, config.table, version)
        check_is_partitioned(config.table, version.settings, config.partition)
        segments = version.segments(config.partition)
        # BigQuery does not document how large a file is if the URI has a `*`. Here each segment becomes one.
        files: list[Sequence[Segment]]
        files = [[segment] for segment in segments] if "*" in config.uri and segments else [segments]
        for number, shard in enumerate(files):
            context.check_cancelled()
            rows = self._catalog.segments.read_all(shard, version.settings.schema)
            content = export_parquet(rows, version.settings.schema, config.compression)
            self._objects.write(config.uri.replace("*", f"{number:012d}"), content)
        size = sum(segment.bytes for segment in segments)
        return {"extract": {"destinationUriFileCounts": [str(len(files))], "inputBytes": str(size)}}


_MAGIC = b"PAR1"
_FOOTER_TAIL_BYTES = 8  # the footer's length and the magic bytes
# Field ids of Parquet's FileMetaData, SchemaElement, RowGroup, ColumnChunk and ColumnMetaData.
_SCHEMA, _ROW_GROUPS = 2, 4
_REPETITION, _NAME, _CHILDREN, _CONVERTED_TYPE = 3, 4, 5, 6
_COLUMNS, _COLUMN_METADATA, _PATH = 1, 3, 3
# Parquet's FieldRepetitionType.REPEATED and ConvertedType.LIST.
_REPEATED, _CONVERTED_LIST = (I32, zigzag(2)), (I32, zigzag(3))


def export_parquet(rows: pa.Table, columns: Sequence[TableField], compression: str) -> bytes:
    """The content of a Parquet file with the rows.

    `rows`: in the Arrow types in which segments store rows. `compression`: a name that the API accepts, such as SNAPPY.
    """
    schema = pa.schema([_field(column) for column in columns])
    if any(_has_repeated(column) for column in columns):
        # pyarrow casts neither to required elements nor from a NULL array, which BigQuery exports as an empty one.
        exported = pa.Table.from_pylist([_values(row, columns) for row in rows.to_pylist()], schema)
    else:
        exported = rows.cast(schema, safe=False)
    content = io.BytesIO()
    pq.write_table(exported, content, compression=compression.lower(), store_schema=False)
    return _with_repeated_fields(content.getvalue())


def _field(column: TableField) -> pa.Field:
    kind = _type(column)
    if column.mode == "REPEATED":
        return pa.field(column.name, pa.list_(pa.field("element", kind, nullable=False)), nullable=False)
    return pa.field(column.name, kind, nullable=column.mode != "REQUIRED")


def _type(column: TableField) -> pa.DataType:
    """The type of one value of the column."""
    if column.type == "STRUCT":
        return pa.struct([_field(child) for child in column.fields])
    if column.type == "TIMESTAMP":
        return pa.timestamp("us")
    if column.type == "FLOAT64":
        return pa.float32()
    stored = arrow_type(column)
    return stored.value_type if column.mode == "REPEATED" else stored


def _has_repeated(column: TableField) -> bool:
    return column.mode == "REPEATED" or any(_has_repeated(child) for child in column.fields)


def _values(row: dict[str, Any], columns: Sequence[TableField]) -> dict[str, Any]:
    return {column.name: _value(row[column.name], column) for column in columns}


def _value(value: Any, column: TableField) -> Any:
    if column.mode == "REPEATED":
        return [_single(element, column) for element in value or ()]
    return _single(value, column)


def _single(value: Any, column: TableField) -> Any:
    if value is None:
        return None
    if column.type == "TIMESTAMP":
        return value.replace(tzinfo=None)
    return _values(value, column.fields) if column.type == "STRUCT" else value


def _with_repeated_fields(content: bytes) -> bytes:
    """The file with each LIST of its footer's schema as a repeated field."""
    length = int.from_bytes(content[-_FOOTER_TAIL_BYTES : -len(_MAGIC)], "little")
    start = len(content) - _FOOTER_TAIL_BYTES - length
    footer = decode_struct(io.BytesIO(content[start : start + length]))
    elements = iter(footer[_SCHEMA][1][1])
    root = next(elements)
    schema: list[Struct] = [root]
    paths: list[list[bytes]] = []
    for _ in range(_child_count(root)):
        _copy_element(elements, schema, paths, [])
    footer[_SCHEMA] = (LIST, (STRUCT, schema))
    for group in footer[_ROW_GROUPS][1][1]:
        for chunk, path in zip(group[_COLUMNS][1][1], paths, strict=True):
            chunk[_COLUMN_METADATA][1][_PATH] = (LIST, (BINARY, path))
    encoded = encode_struct(footer)
    return content[:start] + encoded + len(encoded).to_bytes(4, "little") + _MAGIC


def _copy_element(
    elements: Iterator[Struct], schema: list[Struct], paths: list[list[bytes]], parents: list[bytes]
) -> None:
    """Copies the next schema element with its children. The new path of each leaf is added to `paths`."""
    element = next(elements)
    name = element[_NAME]
    if element.get(_CONVERTED_TYPE) == _CONVERTED_LIST:
        next(elements)  # the group between the LIST and its elements
        element = dict(sorted({**next(elements), _REPETITION: _REPEATED, _NAME: name}.items()))
    schema.append(element)
    path = [*parents, name[1]]
    if not _child_count(element):
        paths.append(path)
    for _ in range(_child_count(element)):
        _copy_element(elements, schema, paths, path)


def _child_count(element: Struct) -> int:
    return element[_CHILDREN][1] >> 1 if _CHILDREN in element else 0
