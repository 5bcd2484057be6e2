"""The physical and logical types of a Parquet file against the declared columns.

Out: the Spark schema to read the file with (the file's own types, the declared order; a cast brings them to the
declared types), or what is wrong. Types are taken from Parquet's own schema: an Arrow schema stored in the file is only
a writer's hint.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as spark

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.column_types import STRUCT
from dedup_spark.landing.leaf_types import expected_text, leaf_text, leaf_type
from dedup_spark.landing.written_form import can_be_brought_into_it, has_written_form


@dataclass(frozen=True)
class Footer:
    """`problems` is empty when the file fits; `schema` then reads it, `is_as_written` when the job writes it so too,
    `is_castable` when pyarrow brings it into that form."""

    schema: spark.StructType
    problems: tuple[str, ...]
    is_as_written: bool = False
    is_castable: bool = False


class _Mismatch(Exception):
    """A column that is not as declared."""


def read_footer(table: TableContract, file: pq.ParquetFile) -> Footer:
    problems: list[str] = []
    declared = {c.name: c for c in table.columns}
    found: dict[str, spark.DataType] = {}
    leaves = iter([file.schema.column(i) for i in range(len(file.schema))])
    for field in file.schema_arrow:
        own = _take(leaves, field.type)
        column = declared.get(field.name)
        if column is None:
            problems.append(_undeclared(field.name, declared))
            continue
        try:
            found[field.name] = _convert(column, column.name, field.type, own)
        except _Mismatch as mismatch:
            problems.append(str(mismatch))
            found[field.name] = spark.NullType()
    twice = [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]
    problems += [f"column [{name}] is in the file more than once, expected once" for name in twice]
    missing = [name for name in declared if name not in found]
    problems += [f"column [{name}] is missing, expected [{declared[name].type}]" for name in missing]
    schema = spark.StructType([spark.StructField(c.name, found[c.name]) for c in table.columns if c.name in found])
    if problems:
        return Footer(schema, tuple(problems))
    is_as_written = has_written_form(table.columns, file)
    return Footer(schema, (), is_as_written, is_as_written or can_be_brought_into_it(table.columns, file))


def _undeclared(name: str, declared: dict[str, Column]) -> str:
    same = next((other for other in declared if other.lower() == name.lower()), None)
    meant = f": only its case differs from [{same}], write it as declared" if same else ""
    return f"column [{name}] is not declared in the feed file{meant}"


def _convert(column: Column, path: str, arrow: pa.DataType, leaves: Iterator[Any]) -> spark.DataType:
    if column.mode is ColumnMode.REPEATED:
        if not _is_list(arrow):
            raise _Mismatch(f"column [{path}] is [{_text(arrow, leaves)}], expected [ARRAY of {column.type}]")
        element = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
        return spark.ArrayType(_convert(element, path, arrow.value_type, leaves))
    if column.type == STRUCT:
        return _convert_struct(column, path, arrow, leaves)
    if pa.types.is_nested(arrow):
        raise _Mismatch(f"column [{path}] is [{arrow}], expected {expected_text(column.type)}")
    leaf = next(leaves)
    kind = leaf_type(column.type, leaf.physical_type, json.loads(leaf.logical_type.to_json()))
    if kind is None:
        raise _Mismatch(f"column [{path}] is [{leaf_text(leaf)}], expected {expected_text(column.type)}")
    return kind


def _convert_struct(column: Column, path: str, arrow: pa.DataType, leaves: Iterator[Any]) -> spark.DataType:
    if not pa.types.is_struct(arrow):
        raise _Mismatch(f"column [{path}] is [{_text(arrow, leaves)}], expected [STRUCT]")
    names = [arrow.field(i).name for i in range(arrow.num_fields)]
    if sorted(names) != sorted(f.name for f in column.fields):
        raise _Mismatch(f"column [{path}] has fields {names}, expected {[f.name for f in column.fields]}")
    declared = {f.name: f for f in column.fields}
    kinds = {
        name: _convert(declared[name], f"{path}.{name}", arrow.field(i).type, leaves) for i, name in enumerate(names)
    }
    return spark.StructType([spark.StructField(f.name, kinds[f.name]) for f in column.fields])


def _take(leaves: Iterator[Any], arrow: pa.DataType) -> Iterator[Any]:
    return iter([next(leaves) for _ in range(_leaf_count(arrow))])


def _leaf_count(arrow: pa.DataType) -> int:
    if pa.types.is_map(arrow):
        return _leaf_count(arrow.key_type) + _leaf_count(arrow.item_type)
    if _is_list(arrow):
        return _leaf_count(arrow.value_type)
    if pa.types.is_struct(arrow):
        return sum(_leaf_count(arrow.field(i).type) for i in range(arrow.num_fields))
    return 1


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow))


def _text(arrow: pa.DataType, leaves: Iterator[Any]) -> str:
    return str(arrow) if pa.types.is_nested(arrow) else leaf_text(next(leaves))
