"""Checks whether a Parquet file has exactly the schema that the job writes. Only such a file is loaded as it is.

A load job takes its schema from one file, and BigQuery does not promise to convert files with other schemas. So a file
with narrower integers, times in milliseconds, another order of columns, or another name of a list's element is read and
rewritten.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.table import Column
from dedup_spark.column_types import arrow_schema

# A Parquet leaf column: path, physical type, logical type, definition level, repetition level.
_Leaf = tuple[str, str, str, int, int]
_NO_ANNOTATION = {"Type": "None"}
# With this annotation a 64-bit integer is of the same type as without any.
_SAME_AS_NONE = {"Type": "Int", "bitWidth": 64, "isSigned": True}
# Keys of a logical type that depend on how the writer encoded the annotation, but do not change its meaning.
_IGNORED = ("is_from_converted_type", "force_set_converted_type")


def has_written_schema(columns: tuple[Column, ...], schema: pq.ParquetSchema) -> bool:
    """Whether a file of this schema has the same leaf columns, in the same order, as a file that the job writes."""
    return _leaves(schema) == _written_leaves(columns)


@lru_cache(maxsize=8)
def _written_leaves(columns: tuple[Column, ...]) -> list[_Leaf]:
    sink = pa.BufferOutputStream()
    pq.write_table(arrow_schema(columns).empty_table(), sink)
    return _leaves(pq.read_metadata(pa.BufferReader(sink.getvalue())).schema)


def _leaves(schema: pq.ParquetSchema) -> list[_Leaf]:
    """All leaf columns, in the file's order."""
    return [_leaf(schema.column(i)) for i in range(len(schema))]


def _leaf(leaf: Any) -> _Leaf:
    logical = {key: value for key, value in json.loads(leaf.logical_type.to_json()).items() if key not in _IGNORED}
    text = json.dumps(_NO_ANNOTATION if logical == _SAME_AS_NONE else logical, sort_keys=True)
    return leaf.path, leaf.physical_type, text, leaf.max_definition_level, leaf.max_repetition_level
