"""Orders values as docs/deliver-snapshots.md defines, to choose between rows of one key and one snapshot id.

This module orders Python's values and Spark's columns; `warehouse/row_sql.py` does so for the engines in SQL.
"""

from __future__ import annotations

import math
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as f

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.column_types import STRUCT

_NULL = (0,)


def comparable(value: Any) -> tuple[Any, ...]:
    """A tuple that Python orders and compares as the data contract requires. `value`: as Arrow's `as_py` returns it."""
    if value is None or value == []:  # BigQuery has no NULL array: it stores an empty one
        return _NULL
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        return (1, tuple(map(comparable, value.values())))
    if isinstance(value, list):
        return (1, tuple(map(comparable, value)))
    return (1, value)


def comparable_column(column: Column, values: SparkColumn) -> SparkColumn:
    """The column's `values` in a form that Spark orders and compares as the data contract requires.

    Spark itself orders as the contract does (NULL lowest, NaN above all numbers, -0.0 equal to 0.0, text and bytes
    unsigned, arrays and structs element by element), except that it tells a NULL array from an empty one.
    """
    if not _has_array(column):
        return values
    if column.mode is ColumnMode.REPEATED:
        element = Column(column.name, column.type, fields=column.fields)
        if _has_array(element):
            values = f.transform(values, lambda item: comparable_column(element, item))
        return f.when(f.size(values) > 0, values)
    fields = [comparable_column(field, values.getField(field.name)).alias(field.name) for field in column.fields]
    return f.when(values.isNotNull(), f.struct(*fields))


def _has_array(column: Column) -> bool:
    is_array = column.mode is ColumnMode.REPEATED
    return is_array or (column.type == STRUCT and any(map(_has_array, column.fields)))
