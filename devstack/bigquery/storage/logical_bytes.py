"""Computes the logical bytes of rows, by which BigQuery bills. Source: "Data type sizes" of its pricing page."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

LENGTH_PREFIX_BYTES = 2  # of every STRING and BYTES value


def column_bytes(rows: pa.Table) -> dict[str, int]:
    """The logical bytes of each top-level column."""
    return {name: sum(_array_bytes(chunk) for chunk in rows.column(name).chunks) for name in rows.column_names}


def _array_bytes(values: pa.Array) -> int:
    """The logical bytes of the values.

    A NULL has none, a list has those of its elements, a struct has those of its fields.
    """
    kind = values.type
    present = int(len(values) - values.null_count)
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind) or \
            pa.types.is_large_binary(kind):  # fmt: skip
        content = pc.sum(pc.binary_length(values)).as_py() or 0
        return int(content) + LENGTH_PREFIX_BYTES * present
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _array_bytes(values.flatten())
    if pa.types.is_struct(kind):
        return sum(_array_bytes(part) for part in values.flatten())
    if pa.types.is_boolean(kind):
        return present
    if pa.types.is_decimal(kind):
        return 16 * present
    if pa.types.is_null(kind):
        return 0
    return 8 * present
