"""Compares the columns of a Parquet file, as its footer describes them, with the declared columns.

The result is the schema with which Spark reads the file, or the problems. This schema has the file's own types in the
declared order; the rows are then cast to the declared types. Types of leaf columns are taken from Parquet's schema,
not from the Arrow schema that a file may contain too, which is only a hint of its writer.
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
from pyspark.sql import types as spark

from dedup_clone.contract.parquet_columns import describe_expected, describe_leaf, describe_undeclared, spark_type_name
from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.column_types import STRUCT, spark_type
from dedup_spark.landing.written_schema import has_written_schema, is_castable


@dataclass(frozen=True)
class Footer:
    """The result of comparing a footer. `schema`: with it Spark reads the file if there are no `problems`.

    `has_written_schema`, `is_castable`: see `FileValidation`.
    """

    schema: spark.StructType
    problems: tuple[str, ...]
    has_written_schema: bool = False
    is_castable: bool = False


class _Mismatch(Exception):
    """A column has another type than declared. The message is the problem."""


@dataclass(frozen=True)
class _Rules:
    """The parameters of `read_footer` that say which differences from the declared columns are allowed."""

    exported: bool
    optional: frozenset[str]


def read_footer(
    table: TableContract, file: pq.ParquetFile, *, exported: bool = False, optional: frozenset[str] = frozenset()
) -> Footer:
    """Compare the file's columns with those of the table.

    `exported`: BigQuery wrote the file, whose TIMESTAMP columns are annotated as not in UTC, although they are.
    `optional`: paths of columns that the file may lack.
    """
    rules = _Rules(exported, optional)
    problems: list[str] = []
    declared = {c.name: c for c in table.columns}
    found: dict[str, spark.DataType] = {}
    leaves = iter([file.schema.column(i) for i in range(len(file.schema))])
    for field in file.schema_arrow:
        own_leaves = iter([next(leaves) for _ in range(_leaf_count(field.type))])
        column = declared.get(field.name)
        if column is None:
            problems.append(describe_undeclared(field.name, declared))
            continue
        try:
            found[field.name] = _spark_type(column, column.name, field.type, own_leaves, rules)
        except _Mismatch as mismatch:
            problems.append(str(mismatch))
            found[field.name] = spark.NullType()
    duplicates = [name for name, count in Counter(file.schema_arrow.names).items() if count > 1]
    problems += [f"column [{name}] is in the file more than once, expected once" for name in duplicates]
    for name in (declared.keys() & optional) - found.keys():
        found[name] = spark_type(declared[name])
    missing = [name for name in declared if name not in found]
    problems += [f"column [{name}] is missing, expected [{declared[name].type}]" for name in missing]
    schema = spark.StructType([spark.StructField(c.name, found[c.name]) for c in table.columns if c.name in found])
    if problems:
        return Footer(schema, tuple(problems))
    is_written = has_written_schema(table.columns, file)
    return Footer(schema, (), is_written, is_written or is_castable(table.columns, file))


def _spark_type(column: Column, path: str, arrow: pa.DataType, leaves: Iterator[Any], rules: _Rules) -> spark.DataType:
    """The type with which Spark reads a column. `leaves`: its leaf columns in Parquet's schema. Raises _Mismatch."""
    if column.mode is ColumnMode.REPEATED:
        if not _is_list(arrow):
            raise _Mismatch(f"column [{path}] is [{_describe(arrow, leaves)}], expected [ARRAY of {column.type}]")
        element = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
        return spark.ArrayType(_spark_type(element, path, arrow.value_type, leaves, rules))
    if column.type == STRUCT:
        return _spark_struct(column, path, arrow, leaves, rules)
    if pa.types.is_nested(arrow):
        raise _Mismatch(f"column [{path}] is [{arrow}], expected {describe_expected(column.type)}")
    leaf = next(leaves)
    logical = json.loads(leaf.logical_type.to_json())
    name = spark_type_name(column.type, leaf.physical_type, logical, exported=rules.exported)
    if name is None:
        found = describe_leaf(leaf.physical_type, leaf.logical_type)
        raise _Mismatch(f"column [{path}] is [{found}], expected {describe_expected(column.type)}")
    return _named_type(name)


@lru_cache
def _named_type(name: str) -> spark.DataType:
    field = {"name": "leaf", "type": name, "nullable": True, "metadata": {}}
    return spark.StructType.fromJson({"type": "struct", "fields": [field]})["leaf"].dataType


def _spark_struct(
    column: Column, path: str, arrow: pa.DataType, leaves: Iterator[Any], rules: _Rules
) -> spark.DataType:
    if not pa.types.is_struct(arrow):
        raise _Mismatch(f"column [{path}] is [{_describe(arrow, leaves)}], expected [STRUCT]")
    names = [arrow.field(i).name for i in range(arrow.num_fields)]
    optional = {f.name for f in column.fields if f"{path}.{f.name}" in rules.optional}
    if sorted(names) != sorted(f.name for f in column.fields if f.name in names or f.name not in optional):
        raise _Mismatch(f"column [{path}] has fields {names}, expected {[f.name for f in column.fields]}")
    declared = {f.name: f for f in column.fields}
    types = {
        name: _spark_type(declared[name], f"{path}.{name}", arrow.field(i).type, leaves, rules)
        for i, name in enumerate(names)
    }
    types.update((name, spark_type(declared[name])) for name in optional - types.keys())
    return spark.StructType([spark.StructField(f.name, types[f.name]) for f in column.fields])


def _leaf_count(arrow: pa.DataType) -> int:
    """How many leaf columns in Parquet's schema a column of this type has."""
    if pa.types.is_map(arrow):
        return _leaf_count(arrow.key_type) + _leaf_count(arrow.item_type)
    if _is_list(arrow):
        return _leaf_count(arrow.value_type)
    if pa.types.is_struct(arrow):
        return sum(_leaf_count(arrow.field(i).type) for i in range(arrow.num_fields))
    return 1


def _is_list(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow))


def _describe(arrow: pa.DataType, leaves: Iterator[Any]) -> str:
    if pa.types.is_nested(arrow):
        return str(arrow)
    leaf = next(leaves)
    return describe_leaf(leaf.physical_type, leaf.logical_type)
