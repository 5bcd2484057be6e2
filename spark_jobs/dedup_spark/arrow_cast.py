"""Brings Arrow data of files into the declared types: casts values, and adds columns that a file lacks.

A NULL STRUCT may have REQUIRED fields, which pyarrow's own cast refuses. Files that were written before columns were
declared lack these.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.table import Column, ColumnMode, TableContract
from dedup_spark.column_types import STRUCT, arrow_type


def cast_table(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the types of `schema`. Both must have the same columns in the same order.

    Raises pyarrow's errors if a value cannot be cast.
    """
    columns = [
        pa.chunked_array([cast_array(chunk, field.type) for chunk in column.chunks], type=field.type)
        for column, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def cast_array(values: pa.Array, declared: pa.DataType) -> pa.Array:
    """Return the values in type `declared`."""
    if values.type == declared:
        return values
    nullable = nullable_type(declared)
    cast = _reordered(values, nullable).cast(nullable)
    return cast if nullable == declared else _with_required_fields(cast, declared)


def _reordered(values: pa.Array, declared: pa.DataType) -> pa.Array:
    """Bring the fields of STRUCTs into the declared order. Older versions of pyarrow do not reorder them in a cast."""
    if pa.types.is_struct(declared) and pa.types.is_struct(values.type):
        fields = [_reordered(values.field(field.name), field.type) for field in declared]
        names = [field.name for field in declared]
        if [(field.name, field.type) for field in values.type] == list(
            zip(names, (field.type for field in fields), strict=True)
        ):
            return values
        return pa.StructArray.from_arrays(fields, names=names, mask=values.is_null())
    if pa.types.is_list(declared) and pa.types.is_list(values.type):
        elements = _reordered(values.values, declared.value_type)
        if elements.type != values.type.value_type:
            return with_elements(values, elements)
    return values


def with_elements(lists: pa.ListArray, elements: pa.Array, declared: pa.DataType | None = None) -> pa.Array:
    """Return `lists` with each of `lists.values` replaced by the element at its position in `elements`.

    `declared`: the type of the result; None to take it from `lists` and `elements`.
    """
    offsets = pa.array(lists.offsets.to_numpy())  # a copy: `from_arrays` takes no mask with offsets that are a slice
    return pa.ListArray.from_arrays(offsets, elements, type=declared, mask=lists.is_null())


def nullable_type(declared: pa.DataType) -> pa.DataType:
    """The same type with all fields of its STRUCTs nullable."""
    if pa.types.is_struct(declared):
        return pa.struct([pa.field(field.name, nullable_type(field.type)) for field in declared])
    if pa.types.is_list(declared):
        return pa.list_(declared.value_field.with_type(nullable_type(declared.value_type)))
    return declared


def _with_required_fields(values: pa.Array, declared: pa.DataType) -> pa.Array:
    """Return the values with REQUIRED fields marked not nullable. Inside a NULL STRUCT such a field gets a filler."""
    if values.type == declared:
        return values
    if pa.types.is_list(declared):
        return with_elements(values, _with_required_fields(values.values, declared.value_type), declared)
    absent = values.is_null()
    children = []
    for number, field in enumerate(declared):
        child = values.field(number)
        if not field.nullable and child.null_count:
            child = pc.if_else(absent, _filler_value(child.type), child)
        children.append(_with_required_fields(child, field.type))
    return pa.StructArray.from_arrays(children, fields=list(declared), mask=absent)


def _filler_value(data_type: pa.DataType) -> pa.Scalar:
    """Return the value, never NULL, that pyarrow itself stores in the fields of a NULL STRUCT."""
    return pa.array([None], type=pa.struct([pa.field("field", data_type)])).field(0)[0]


def complete_batch(table: TableContract, uri: str, batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """The batch of the file `uri` with each of `columns` that it lacks. Other columns of the batch stay as they are.

    Date and snapshot id come from the folders' names: `snapshot_id=N/COLUMN=YYYY-MM-DD/FILE`. Writers of Hive
    partitions leave them out, and only validated files may lack them, so the folders are there. Other columns are NULL,
    also fields of STRUCTs. A REQUIRED column is not added, but a REQUIRED field of a STRUCT is.
    """
    names, arrays = list(batch.schema.names), list(batch.columns)
    is_complete = True
    for column in columns:
        if column.name in names:
            position = names.index(column.name)
            if not _lacks_fields(column, arrays[position].type):
                continue
            arrays[position] = _complete(column, arrays[position])
        elif column.name in (table.partition_column, table.snapshot_id_column):
            names.append(column.name)
            arrays.append(pa.repeat(_folder_value(table, uri, column.name), batch.num_rows))
        elif column.mode is not ColumnMode.REQUIRED:
            names.append(column.name)
            arrays.append(_nulls(column, batch.num_rows))
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


def _folder_value(table: TableContract, uri: str, name: str) -> pa.Scalar:
    if name == table.partition_column:
        return pa.scalar(date.fromisoformat(uri.rsplit(f"/{name}=", 1)[1].partition("/")[0]), pa.date32())
    return pa.scalar(int(uri.rsplit("/snapshot_id=", 1)[1].partition("/")[0]), pa.int64())
