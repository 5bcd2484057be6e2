"""Writes CAST and SAFE_CAST, and typed constructors (`STRUCT<…>(…)`, `ARRAY<…>[…]`), which SQLGlot parses as casts.

Where DuckDB converts differently from BigQuery, a macro in `functions.sql` chooses the conversion by the type found at
run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import TableField, to_duckdb_type
from bigquery_standin.sql.writer.columns_and_structs import has_rows_of_query, struct_items, struct_sql
from bigquery_standin.sql.writer.literals import named_fields
from bigquery_standin.sql.writer.node_writer import Writer, handles

_SCALARS = {
    exp.DType.BIGINT: "INT64",
    exp.DType.INT: "INT64",
    exp.DType.SMALLINT: "INT64",
    exp.DType.TINYINT: "INT64",
    exp.DType.DOUBLE: "FLOAT64",
    exp.DType.BOOLEAN: "BOOL",
    exp.DType.TEXT: "STRING",
    exp.DType.BINARY: "BYTES",
    exp.DType.VARBINARY: "BYTES",
    exp.DType.DATE: "DATE",
    exp.DType.TIME: "TIME",
    exp.DType.DATETIME: "DATETIME",
    exp.DType.TIMESTAMP: "DATETIME",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
    exp.DType.DECIMAL: "NUMERIC",
}


@handles(exp.Cast, exp.TryCast, supported_args="this to safe")
def _cast(writer: Writer, node: exp.Cast) -> str:
    target, safe = field_of_data_type(node.to), isinstance(node, exp.TryCast)
    constructed = _constructor_sql(writer, node.this, target)
    if constructed is None and target.mode != "REPEATED" and target.type != "STRUCT":
        return conversion_sql(writer.write(node.this), target.type, safe=safe)
    function = "TRY_CAST" if safe else "CAST"
    return f"{function}({constructed or writer.write(node.this)} AS {to_duckdb_type(target)})"


def _constructor_sql(writer: Writer, node: exp.Expr, target: TableField) -> str | None:
    """The SQL of a constructor of the type `target`, or of a written STRUCT or array that is cast to `target`.

    None for any other node. BigQuery matches the fields by position. In a cast, DuckDB would match them by name.
    """
    if isinstance(node, exp.Struct):
        return _typed_struct(writer, node.expressions, target)
    fields = struct_items(node) if target.type == "STRUCT" and target.mode != "REPEATED" else None
    if fields is not None:
        return _typed_struct(writer, fields, target)
    if isinstance(node, exp.Array) and not has_rows_of_query(node) and target.mode == "REPEATED":
        element = TableField("", target.type, fields=target.fields)
        return f"[{', '.join(_typed_element(writer, item, element) for item in node.expressions)}]"
    return None


def _typed_struct(writer: Writer, items: Sequence[exp.Expr], target: TableField) -> str:
    return struct_sql(writer, items, [field.name for field in target.fields])


def _typed_element(writer: Writer, item: exp.Expr, element: TableField) -> str:
    fields = struct_items(item) if element.type == "STRUCT" else None
    return writer.write(item) if fields is None else _typed_struct(writer, fields, element)


def field_of_data_type(kind: exp.DataType) -> TableField:
    """A field without a name that has this type. Nested fields without a name get `_field_N`, counted from 1.

    Raises InvalidQuery for ARRAY without one element type, NotImplementedConstruct for an unsupported type.
    """
    if kind.this is exp.DType.ARRAY:
        if len(kind.expressions) != 1:
            raise InvalidQuery("Syntax error: ARRAY needs one element type, as in ARRAY<INT64>")
        element = field_of_data_type(kind.expressions[0])
        return TableField("", element.type, "REPEATED", element.fields)
    if kind.this is exp.DType.STRUCT:
        return TableField("", "STRUCT", fields=named_fields(tuple(_struct_field(item) for item in kind.expressions)))
    if kind.this not in _SCALARS or kind.expressions:
        raise NotImplementedConstruct(f"type {kind.sql(dialect='bigquery')}")
    return TableField("", _SCALARS[kind.this])


def _struct_field(item: exp.Expr) -> TableField:
    if not isinstance(item, exp.ColumnDef):
        assert isinstance(item, exp.DataType)  # STRUCT<INT64, STRING>: fields without names
        return field_of_data_type(item)
    inner = field_of_data_type(item.args["kind"])
    return TableField(item.name, inner.type, inner.mode, inner.fields)


def conversion_sql(value_sql: str, type_name: str, *, safe: bool = False) -> str:
    """DuckDB SQL that converts a value, given as SQL, to BigQuery's type as CAST (if `safe`, SAFE_CAST) does."""
    if type_name in ("STRING", "INT64", "BOOL"):
        return f"own_{'safe_' if safe else ''}to_{type_name.lower()}({value_sql})"
    if type_name == "BYTES":
        return f"own_bytes({value_sql})"
    return f"{'TRY_CAST' if safe else 'CAST'}({value_sql} AS {to_duckdb_type(TableField('', type_name))})"
