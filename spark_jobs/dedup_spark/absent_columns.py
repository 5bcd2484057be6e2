"""Adds NULL columns to rows of files that were written before the columns were declared."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dedup_clone.contract.table import Column, ColumnMode
from dedup_spark.arrow_cast import nullable_type, with_elements
from dedup_spark.column_types import STRUCT, arrow_type


def complete_batch(batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """The batch with a NULL column for each of `columns` that it lacks, also inside STRUCTs.

    A REQUIRED column is not added, but a REQUIRED field of a STRUCT is. Other columns of the batch stay as they are.
    """
    names, arrays = list(batch.schema.names), list(batch.columns)
    is_complete = True
    for column in columns:
        if column.name not in names:
            if column.mode is not ColumnMode.REQUIRED:
                names.append(column.name)
                arrays.append(_nulls(column, batch.num_rows))
                is_complete = False
        else:
            position = names.index(column.name)
            if _lacks_fields(column, arrays[position].type):
                arrays[position] = _complete(column, arrays[position])
                is_complete = False
    return batch if is_complete else pa.RecordBatch.from_arrays(arrays, names=names)


def _nulls(column: Column, rows: int) -> pa.Array:
    return pa.nulls(rows, nullable_type(arrow_type(column)))


def _lacks_fields(column: Column, found: pa.DataType) -> bool:
    """Whether `found`, the type of a STRUCT column in the file, lacks a declared field at any depth."""
    if column.type != STRUCT:
        return False
    struct = found.value_type if column.mode is ColumnMode.REPEATED else found
    names = {struct.field(number).name for number in range(struct.num_fields)}
    return any(f.name not in names or _lacks_fields(f, struct.field(f.name).type) for f in column.fields)


def _complete(column: Column, values: pa.Array) -> pa.Array:
    """The STRUCT values, or arrays of STRUCTs, with a NULL field for each field of the column that they lack."""
    if column.mode is ColumnMode.REPEATED:
        element = Column(column.name, column.type, ColumnMode.NULLABLE, column.fields)
        return with_elements(values, _complete(element, values.values))
    children = []
    for field in column.fields:
        if values.type.get_field_index(field.name) < 0:
            children.append(_nulls(field, len(values)))
            continue
        child = values.field(field.name)
        children.append(_complete(field, child) if _lacks_fields(field, child.type) else child)
    return pa.StructArray.from_arrays(children, names=[f.name for f in column.fields], mask=values.is_null())
