"""Compares a Parquet file's footer with the declared columns, and finds a layout that BigQuery cannot read.

Types are those of Parquet's schema, not of the Arrow schema that a file may contain too, which is only a hint of its
writer. Every type that passes can be cast to the declared one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.parquet import (
    COMPRESSIONS,
    COMPRESSIONS_TEXT,
    MAGIC,
    TRAILER_BYTES,
    describe_expected,
    describe_leaf,
    describe_undeclared,
    holds_type,
)
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.column_types import STRUCT, arrow_schema

# The longest integer in which pyarrow decodes a DECIMAL.
_DECIMAL_BYTES = 16


class _Mismatch(Exception):
    """A column has another type than declared. The message is the problem."""


@dataclass(frozen=True)
class _Rules:
    """The parameters of `footer_problems` that say which differences from the declared columns are allowed."""

    exported: bool
    optional: frozenset[str]


def footer_problems(
    table: TableContract, metadata: pq.FileMetaData, *, exported: bool = False, optional: frozenset[str] = frozenset()
) -> list[str]:
    """Compare the columns of a file that has this footer with those of the table.

    `exported`: BigQuery wrote the file, whose TIMESTAMP columns are annotated as not in UTC, although they are.
    `optional`: paths of columns that the file may lack.
    """
    schema, rules = metadata.schema, _Rules(exported, optional)
    problems = list(_values_outside_types(metadata))
    declared = {c.name: c for c in table.columns}
    in_arrow = schema.to_arrow_schema()
    leaves = iter([schema.column(i) for i in range(len(schema))])
    for field in in_arrow:
        own_leaves = iter([next(leaves) for _ in range(_leaf_count(field.type))])
        column = declared.get(field.name)
        if column is None:
            problems.append(describe_undeclared(field.name, declared))
            continue
        try:
            _require_type(column, column.name, field.type, own_leaves, rules)
        except _Mismatch as mismatch:
            problems.append(str(mismatch))
    duplicates = [name for name, count in Counter(in_arrow.names).items() if count > 1]
    problems += [f"column [{name}] is in the file more than once, expected once" for name in duplicates]
    missing = [name for name in declared if name not in in_arrow.names and name not in optional]
    return problems + [f"column [{name}] is missing, expected [{declared[name].type}]" for name in missing]


def _values_outside_types(metadata: pq.FileMetaData) -> Iterator[str]:
    """One text for each integer column of 8 or 16 bits whose statistics show values that do not fit.

    Parquet forbids them, and pyarrow would cut them off without a word.
    """
    for number in range(metadata.num_columns):
        leaf = metadata.schema.column(number)
        logical = json.loads(leaf.logical_type.to_json())
        if logical["Type"] != "Int" or logical["bitWidth"] > 16:
            continue
        highest = (1 << logical["bitWidth"] - logical["isSigned"]) - 1
        lowest = -highest - 1 if logical["isSigned"] else 0
        groups = [metadata.row_group(group).column(number).statistics for group in range(metadata.num_row_groups)]
        known = [found for found in groups if found is not None and found.has_min_max]
        if not all(lowest <= found.min_raw <= found.max_raw <= highest for found in known):
            yield f"column [{leaf.path}]: values are outside [{lowest}, {highest}], the range of the file's own type"


def _require_type(column: Column, path: str, arrow: pa.DataType, leaves: Iterator[Any], rules: _Rules) -> None:
    """Raise _Mismatch if the column's values are not of the declared type. `leaves`: those that the column has."""
    if column.mode is ColumnMode.REPEATED:
        if not pa.types.is_list(arrow):
            raise _Mismatch(f"column [{path}] is [{_describe(arrow, leaves)}], expected [ARRAY of {column.type}]")
        element = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
        return _require_type(element, path, arrow.value_type, leaves, rules)
    if column.type == STRUCT:
        return _require_fields(column, path, arrow, leaves, rules)
    if pa.types.is_nested(arrow):
        raise _Mismatch(f"column [{path}] is [{arrow}], expected {describe_expected(column.type)}")
    leaf = next(leaves)
    logical = json.loads(leaf.logical_type.to_json())
    found = describe_leaf(leaf.physical_type, leaf.logical_type)
    if not holds_type(column.type, leaf.physical_type, logical, exported=rules.exported):
        raise _Mismatch(f"column [{path}] is [{found}], expected {describe_expected(column.type)}")
    if logical["Type"] == "Decimal" and leaf.length > _DECIMAL_BYTES:
        raise _Mismatch(f"column [{path}] is [{found}] in [{leaf.length}] bytes, expected at most [{_DECIMAL_BYTES}]")
    return None


def _require_fields(column: Column, path: str, arrow: pa.DataType, leaves: Iterator[Any], rules: _Rules) -> None:
    if not pa.types.is_struct(arrow):
        raise _Mismatch(f"column [{path}] is [{_describe(arrow, leaves)}], expected [STRUCT]")
    names = [arrow.field(i).name for i in range(arrow.num_fields)]
    optional = {f.name for f in column.fields if f"{path}.{f.name}" in rules.optional}
    if sorted(names) != sorted(f.name for f in column.fields if f.name in names or f.name not in optional):
        raise _Mismatch(f"column [{path}] has fields {names}, expected {[f.name for f in column.fields]}")
    declared = {f.name: f for f in column.fields}
    for number, name in enumerate(names):
        _require_type(declared[name], f"{path}.{name}", arrow.field(number).type, leaves, rules)


def _leaf_count(arrow: pa.DataType) -> int:
    """How many leaf columns in Parquet's schema a column of this type has."""
    if pa.types.is_map(arrow):
        return _leaf_count(arrow.key_type) + _leaf_count(arrow.item_type)
    if pa.types.is_list(arrow):
        return _leaf_count(arrow.value_type)
    if pa.types.is_struct(arrow):
        return sum(_leaf_count(arrow.field(i).type) for i in range(arrow.num_fields))
    return 1


def _describe(arrow: pa.DataType, leaves: Iterator[Any]) -> str:
    if pa.types.is_nested(arrow):
        return str(arrow)
    leaf = next(leaves)
    return describe_leaf(leaf.physical_type, leaf.logical_type)


# A Parquet leaf column: path, physical type, its length in bytes if it is fixed, logical type, definition level,
# repetition level.
_Leaf = tuple[str, str, int, str, int, int]
_NO_ANNOTATION = {"Type": "None"}
# With this annotation a 64-bit integer is of the same type as without any.
_SAME_AS_NONE = {"Type": "Int", "bitWidth": 64, "isSigned": True}
# Keys of a logical type that depend on how the writer encoded the annotation, but do not change its meaning.
_IGNORED = ("is_from_converted_type", "force_set_converted_type")


def has_written_schema(columns: tuple[Column, ...], schema: pq.ParquetSchema) -> bool:
    """Whether a file of this schema has the same columns, in the same order, as a file that the job writes.

    Only such a file is loaded as it is: a load job takes its schema from one file, and BigQuery does not promise to
    convert files with other schemas. A file with narrower integers, times in milliseconds, another order of columns, or
    another name of a list's element is read and rewritten.
    """
    return _form(schema) == _written_form(columns)


@lru_cache(maxsize=8)
def _written_form(columns: tuple[Column, ...]) -> tuple[pa.Schema, list[_Leaf]]:
    sink = pa.BufferOutputStream()
    pq.write_table(arrow_schema(columns).empty_table(), sink, store_schema=False)
    return _form(pq.read_metadata(pa.BufferReader(sink.getvalue())).schema)


def _form(schema: pq.ParquetSchema) -> tuple[pa.Schema, list[_Leaf]]:
    """How the columns are nested, and all leaf columns, in the file's order."""
    return schema.to_arrow_schema(), [_leaf(schema.column(i)) for i in range(len(schema))]


def _leaf(leaf: Any) -> _Leaf:
    logical, levels = _meaning(leaf.logical_type.to_json()), (leaf.max_definition_level, leaf.max_repetition_level)
    return leaf.path, leaf.physical_type, leaf.length, logical, *levels


@lru_cache
def _meaning(logical_type: str) -> str:
    """The logical type, as JSON, without what does not change its meaning."""
    logical = {key: value for key, value in json.loads(logical_type).items() if key not in _IGNORED}
    return json.dumps(_NO_ANNOTATION if logical == _SAME_AS_NONE else logical, sort_keys=True)


# The encodings that BigQuery reads.
_ENCODINGS = {
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_BYTE_ARRAY",
    "DELTA_LENGTH_BYTE_ARRAY",
    "PLAIN",
    "PLAIN_DICTIONARY",
    "RLE",
    "RLE_DICTIONARY",
}
_ENCODINGS_TEXT = f"one of [{', '.join(sorted(_ENCODINGS))}]"


def unsupported_encodings(metadata: pq.FileMetaData) -> list[str]:
    """A problem for each column and each compression or encoding that BigQuery does not read."""
    problems: dict[tuple[str, str], None] = {}
    for group in range(metadata.num_row_groups):
        chunks = metadata.row_group(group)
        for number in range(chunks.num_columns):
            chunk = chunks.column(number)
            if chunk.compression not in COMPRESSIONS:
                problem = f"is compressed by [{chunk.compression}], expected {COMPRESSIONS_TEXT}"
                problems[chunk.path_in_schema, problem] = None
            for encoding in set(chunk.encodings) - _ENCODINGS:
                problems[chunk.path_in_schema, f"is encoded by [{encoding}], expected {_ENCODINGS_TEXT}"] = None
    return [f"column [{path}] {problem}" for path, problem in problems]


def joined_files(metadata: pq.FileMetaData, source: pa.NativeFile) -> list[str]:
    """A problem if the bytes between the last column chunk and the footer hold the seam of two joined files.

    Readers see only the rows of the last footer, read from the first file. Without a seam these bytes are Bloom filters
    and page indexes. If there are none, nothing is read.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
    end = max((_start(chunk) + chunk.total_compressed_size for chunk in chunks), default=len(MAGIC))
    rest = source.size() - TRAILER_BYTES - metadata.serialized_size - end
    if rest <= 0 or MAGIC + MAGIC not in source.read_at(rest, end):
        return []
    return [
        f"has [{metadata.num_rows}] rows by its last footer, and the bytes of another Parquet file behind them: files "
        f"were joined byte by byte, land each by itself"
    ]


def _start(chunk: pq.ColumnChunkMetaData) -> int:
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    return int(dictionary or chunk.data_page_offset)
