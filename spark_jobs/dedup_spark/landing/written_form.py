"""Whether a Parquet file has exactly the form in which the job writes the table: only such a file is loaded as it is.

A load job takes its schema from one file, and BigQuery does not promise to widen the other files to it. So a narrower
integer, milliseconds, another order of columns or another name inside a list is read and written anew, never loaded.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dedup_clone.contract.table import Column
from dedup_spark.column_types import arrow_schema

_Leaf = tuple[str, str, str, int, int]
_NO_ANNOTATION = {"Type": "None"}
_SAME_AS_NONE = {"Type": "Int", "bitWidth": 64, "isSigned": True}


def has_written_form(columns: tuple[Column, ...], file: pq.ParquetFile) -> bool:
    return _leaves(file) == _written(columns)


def can_be_brought_into_it(columns: tuple[Column, ...], file: pq.ParquetFile) -> bool:
    """Whether pyarrow casts the file's columns to those that the job writes. It is asked with no rows."""
    form = arrow_schema(columns)
    try:
        file.schema_arrow.empty_table().select(form.names).cast(form)
    except (pa.ArrowException, ValueError):
        return False
    return True


@lru_cache(maxsize=8)
def _written(columns: tuple[Column, ...]) -> list[_Leaf]:
    sink = pa.BufferOutputStream()
    pq.write_table(arrow_schema(columns).empty_table(), sink)
    with pq.ParquetFile(pa.BufferReader(sink.getvalue())) as file:
        return _leaves(file)


def _leaves(file: pq.ParquetFile) -> list[_Leaf]:
    """Path, types and modes (as definition and repetition levels) of each leaf, in the file's order."""
    return [_leaf(file.schema.column(i)) for i in range(len(file.schema))]


def _leaf(leaf: Any) -> _Leaf:
    logical = json.loads(leaf.logical_type.to_json())
    # How the writer spelt the annotation, not what it means.
    meant = {key: value for key, value in logical.items() if key not in ("is_from_converted_type", _FORCED)}
    meant = _NO_ANNOTATION if meant == _SAME_AS_NONE else meant
    text = json.dumps(meant, sort_keys=True)
    return leaf.path, leaf.physical_type, text, leaf.max_definition_level, leaf.max_repetition_level


_FORCED = "force_set_converted_type"
