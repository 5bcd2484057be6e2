"""Casts Arrow data to the declared types. A NULL STRUCT may have REQUIRED fields, which pyarrow's own cast refuses."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


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
