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
from dedup_spark.column_types import arrow_type


def is_encoded(array: pa.Array) -> bool:
    """Whether the array has numbers of a dictionary's texts instead of texts."""
    return bool(pa.types.is_dictionary(array.type))


def decoded(array: pa.Array) -> pa.Array:
    """The texts themselves; any other array as it is."""
    return array.dictionary_decode() if is_encoded(array) else array


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
    """Return the values in type `declared`. STRUCTs get its fields in its order; a field that they lack is NULL.

    Texts that are encoded by a dictionary are decoded.
    """
    if values.type == declared:
        return values
    if is_encoded(values):
        return cast_array(decoded(values), declared)
    if pa.types.is_struct(declared) and pa.types.is_struct(values.type):
        return _cast_structs(values, declared)
    if pa.types.is_list(declared) and pa.types.is_list(values.type):
        elements = cast_array(values.values, declared.value_type)
        # A copy: `from_arrays` takes no mask with offsets that are a slice.
        offsets = pa.array(values.offsets.to_numpy())
        return pa.ListArray.from_arrays(offsets, elements, type=declared, mask=values.is_null())
    return values.cast(declared)


def _cast_structs(values: pa.Array, declared: pa.DataType) -> pa.Array:
    """Cast STRUCTs. Inside a NULL STRUCT a REQUIRED field gets a filler, because it cannot be NULL."""
    absent, children = values.is_null(), []
    for field in declared:
        child = field_of(values, field)
        if not field.nullable and child.null_count:
            child = pc.if_else(absent, _filler_value(child.type), child)
        children.append(cast_array(child, field.type))
    return pa.StructArray.from_arrays(children, fields=list(declared), mask=absent)


def field_of(structs: pa.Array, field: pa.Field) -> pa.Array:
    """The values of a field, in the type in which `structs` has it; NULL in the declared type if they lack it."""
    position = structs.type.get_field_index(field.name)
    return structs.field(position) if position >= 0 else pa.nulls(len(structs), nullable_type(field.type))


def nullable_type(declared: pa.DataType) -> pa.DataType:
    """The same type with all fields of its STRUCTs nullable."""
    if pa.types.is_struct(declared):
        return pa.struct([pa.field(field.name, nullable_type(field.type)) for field in declared])
    if pa.types.is_list(declared):
        return pa.list_(declared.value_field.with_type(nullable_type(declared.value_type)))
    return declared


def _filler_value(data_type: pa.DataType) -> pa.Scalar:
    """Return the value, never NULL, that pyarrow itself stores in the fields of a NULL STRUCT."""
    return pa.array([None], type=pa.struct([pa.field("field", data_type)])).field(0)[0]


def dates_of(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The dates of values of the partition column. Those of a TIMESTAMP are in UTC, whatever zone a file names."""
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit))
    return values.cast(pa.date32())


def complete_batch(table: TableContract, uri: str, batch: pa.RecordBatch, columns: Sequence[Column]) -> pa.RecordBatch:
    """The batch of the file `uri` with each of `columns` that it lacks. Other columns of the batch stay as they are.

    Date and snapshot id come from the folders' names: `snapshot_id=N/COLUMN=YYYY-MM-DD/FILE`. Writers of Hive
    partitions leave them out, and only validated files may lack them, so the folders are there. Other columns are NULL;
    a REQUIRED one is not added.
    """
    names, arrays = batch.schema.names, list(batch.columns)
    present = set(names)
    for column in (column for column in columns if column.name not in present):
        if column.name in (table.partition_column, table.snapshot_id_column):
            arrays.append(pa.repeat(_folder_value(table, uri, column.name), batch.num_rows))
        elif column.mode is not ColumnMode.REQUIRED:
            arrays.append(pa.nulls(batch.num_rows, nullable_type(arrow_type(column))))
        else:
            continue
        names.append(column.name)
    return batch if len(names) == batch.num_columns else pa.RecordBatch.from_arrays(arrays, names=names)


def _folder_value(table: TableContract, uri: str, name: str) -> pa.Scalar:
    if name == table.partition_column:
        return pa.scalar(date.fromisoformat(uri.rsplit(f"/{name}=", 1)[1].partition("/")[0]), pa.date32())
    return pa.scalar(int(uri.rsplit("/snapshot_id=", 1)[1].partition("/")[0]), pa.int64())
