"""Writes CAST and SAFE_CAST, and typed constructors (`STRUCT<…>(…)`, `ARRAY<…>[…]`), which SQLGlot parses as casts.

Where DuckDB converts differently from BigQuery, the SQL chooses the conversion by the type found at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.field_types import TableField, to_duckdb_type
from devstack.bigquery.sql.runtime_errors import error_sql, unsupported_sql
from devstack.bigquery.sql.writer.columns_and_structs import has_rows_of_query, struct_items, struct_sql
from devstack.bigquery.sql.writer.literals import named_fields
from devstack.bigquery.sql.writer.node_writer import Writer, handles

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
    value = f"({value_sql})"
    cast = "TRY_CAST" if safe else "CAST"
    match type_name:
        case "STRING":
            return f"({_to_string(value, safe)})"
        case "INT64":
            return f"({_to_int64(value, cast, safe)})"
        case "BOOL":
            return f"({_to_bool(value, cast, safe)})"
        case "BYTES":
            text = _text(value)
            return f"(CASE WHEN typeof({value}) = 'BLOB' THEN CAST({text} AS BLOB) ELSE encode({text}) END)"
    return f"{cast}({value_sql} AS {to_duckdb_type(TableField('', type_name))})"


def _text(value: str) -> str:
    """The value as text. Every DuckDB type converts to text, so each CASE branch binds for any type."""
    return f"CAST({value} AS VARCHAR)"


def _failure(message: str, value: str, safe: bool) -> str:
    return "NULL" if safe else error_sql(f"'{message}: ' || {_text(value)}")


def _to_string(value: str, safe: bool) -> str:
    """BigQuery prints fractions of a second in groups of three digits, and whole FLOAT64 numbers without a point."""
    text = _text(value)
    fraction = f"regexp_extract({text}, '\\.(\\d+)', 1)"
    decoded = f"decode(CAST({text} AS BLOB))"
    padded = f"rpad({fraction}, CASE WHEN length({fraction}) <= 3 THEN 3 ELSE 6 END, '0')"
    return (
        f"CASE WHEN typeof({value}) IN ('DOUBLE', 'FLOAT') THEN {_float_text(f'TRY_CAST({text} AS DOUBLE)')} "
        f"WHEN typeof({value}) LIKE 'DECIMAL%' "
        f"THEN regexp_replace(regexp_replace({text}, '(\\.\\d*?)0+$', '\\1'), '\\.$', '') "
        f"WHEN typeof({value}) IN ('TIMESTAMP WITH TIME ZONE', 'TIMESTAMP', 'TIME') "
        f"THEN regexp_replace({text}, '\\.\\d+', '.' || {padded}) "
        f"WHEN typeof({value}) = 'BLOB' THEN {f'TRY({decoded})' if safe else decoded} "
        f"WHEN typeof({value}) LIKE 'STRUCT%' OR typeof({value}) LIKE '%[]' "
        f"THEN {unsupported_sql('CAST of ARRAY or STRUCT AS STRING')} ELSE {text} END"
    )


def _float_text(number: str) -> str:
    """Fifteen digits if they identify the number, else seventeen. Zero has no sign."""
    short = f"printf('%.15g', {number})"
    return (
        f"CASE WHEN {number} = 0 THEN '0' WHEN CAST({short} AS DOUBLE) = {number} THEN {short} "
        f"ELSE printf('%.17g', {number}) END"
    )


def _to_int64(value: str, cast: str, safe: bool) -> str:
    """BigQuery rounds halves away from zero. Text must be a whole number, decimal or hexadecimal, also with a sign."""
    text = _text(value)
    unsigned_hex = f"regexp_replace(trim({text}), '[+-](0[xX])', '\\1')"
    sign = f"CASE WHEN regexp_matches({text}, '-0[xX]') THEN -1 ELSE 1 END"
    integer_condition = f"regexp_full_match({text}, '\\s*[+-]?([0-9]+|0[xX][0-9a-fA-F]+)\\s*')"
    return (
        f"CASE WHEN typeof({value}) = 'VARCHAR' THEN "
        f"CASE WHEN NOT {integer_condition} THEN {_failure('Bad int64 value', value, safe)} "
        f"ELSE {cast}({unsigned_hex} AS BIGINT) * {sign} END "
        f"WHEN typeof({value}) IN ('DOUBLE', 'FLOAT') THEN {cast}(round(TRY_CAST({text} AS DOUBLE)) AS BIGINT) "
        f"WHEN typeof({value}) LIKE 'DECIMAL%' THEN {cast}(round(TRY_CAST({text} AS DECIMAL(38,9))) AS BIGINT) "
        f"ELSE {cast}({value} AS BIGINT) END"
    )


def _to_bool(value: str, cast: str, safe: bool) -> str:
    is_wrong = f"typeof({value}) = 'VARCHAR' AND lower({_text(value)}) NOT IN ('true', 'false')"
    return f"CASE WHEN {is_wrong} THEN {_failure('Bad bool value', value, safe)} ELSE {cast}({value} AS BOOLEAN) END"
