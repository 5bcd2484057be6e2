"""CAST and SAFE_CAST: where DuckDB converts differently, the type found at run time chooses the conversion."""

from __future__ import annotations

from sqlglot import exp

from devstack.bigquery.errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.failures import failure, refusal
from devstack.bigquery.sql.types import TableField, to_duckdb_type

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


def field_of(kind: exp.DataType) -> TableField:
    """The (unnamed) field of a type in an expression."""
    if kind.this is exp.DType.ARRAY:
        if len(kind.expressions) != 1:
            raise InvalidQuery("Syntax error: ARRAY needs one element type, as in ARRAY<INT64>")
        element = field_of(kind.expressions[0])
        return TableField("", element.type, "REPEATED", element.fields)
    if kind.this is exp.DType.STRUCT:
        return TableField("", "STRUCT", fields=tuple(_struct_field(item) for item in kind.expressions))
    if kind.this not in _SCALARS or kind.expressions:
        raise NotImplementedConstruct(f"type {kind.sql(dialect='bigquery')}")
    return TableField("", _SCALARS[kind.this])


def _struct_field(item: exp.Expr) -> TableField:
    if not isinstance(item, exp.ColumnDef):
        assert isinstance(item, exp.DataType)  # STRUCT<INT64, STRING>: fields without names
        return field_of(item)
    inner = field_of(item.args["kind"])
    return TableField(item.name, inner.type, inner.mode, inner.fields)


def convert(written: str, type_name: str, *, safe: bool = False) -> str:
    """A value already written in SQL, converted as BigQuery's CAST (or, when safe, SAFE_CAST) does."""
    value = f"({written})"
    cast = "TRY_CAST" if safe else "CAST"
    match type_name:
        case "STRING":
            return f"({_to_string(value)})"
        case "INT64":
            return f"({_to_int64(value, cast, safe)})"
        case "BOOL":
            return f"({_to_bool(value, cast, safe)})"
        case "BYTES":
            text = _text(value)
            return f"(CASE WHEN typeof({value}) = 'BLOB' THEN CAST({text} AS BLOB) ELSE encode({text}) END)"
    return f"{cast}({written} AS {to_duckdb_type(TableField('', type_name))})"


def _text(value: str) -> str:
    """The one form that every DuckDB type converts to, so that each branch binds whatever the type is."""
    return f"CAST({value} AS VARCHAR)"


def _failure(message: str, value: str, safe: bool) -> str:
    return "NULL" if safe else failure(f"'{message}: ' || {_text(value)}")


def _to_string(value: str) -> str:
    """BigQuery prints fractions of a second in groups of three digits and whole FLOAT64 numbers without a point."""
    text = _text(value)
    fraction = f"regexp_extract({text}, '\\.(\\d+)', 1)"
    padded = f"rpad({fraction}, CASE WHEN length({fraction}) <= 3 THEN 3 ELSE 6 END, '0')"
    return (
        f"CASE WHEN typeof({value}) IN ('DOUBLE', 'FLOAT') THEN {_float_text(f'TRY_CAST({text} AS DOUBLE)')} "
        f"WHEN typeof({value}) LIKE 'DECIMAL%' "
        f"THEN regexp_replace(regexp_replace({text}, '(\\.\\d*?)0+$', '\\1'), '\\.$', '') "
        f"WHEN typeof({value}) IN ('TIMESTAMP WITH TIME ZONE', 'TIMESTAMP', 'TIME') "
        f"THEN regexp_replace({text}, '\\.\\d+', '.' || {padded}) "
        f"WHEN typeof({value}) = 'BLOB' THEN decode(CAST({text} AS BLOB)) "
        f"WHEN typeof({value}) LIKE 'STRUCT%' OR typeof({value}) LIKE '%[]' "
        f"THEN {refusal('CAST of ARRAY or STRUCT AS STRING')} ELSE {text} END"
    )


def _float_text(number: str) -> str:
    """Fifteen digits where they tell the number, else seventeen; a zero has no sign."""
    short = f"printf('%.15g', {number})"
    return (
        f"CASE WHEN {number} = 0 THEN '0' WHEN CAST({short} AS DOUBLE) = {number} THEN {short} "
        f"ELSE printf('%.17g', {number}) END"
    )


def _to_int64(value: str, cast: str, safe: bool) -> str:
    """BigQuery rounds halves away from zero, and reads whole numbers only from text."""
    text = _text(value)
    is_integer = f"regexp_full_match({text}, '\\s*[+-]?([0-9]+|0[xX][0-9a-fA-F]+)\\s*')"
    return (
        f"CASE WHEN typeof({value}) = 'VARCHAR' THEN "
        f"CASE WHEN NOT {is_integer} THEN {_failure('Bad int64 value', value, safe)} "
        f"ELSE {cast}({text} AS BIGINT) END "
        f"WHEN typeof({value}) IN ('DOUBLE', 'FLOAT') THEN {cast}(round(TRY_CAST({text} AS DOUBLE)) AS BIGINT) "
        f"WHEN typeof({value}) LIKE 'DECIMAL%' THEN {cast}(round(TRY_CAST({text} AS DECIMAL(38,9))) AS BIGINT) "
        f"ELSE {cast}({value} AS BIGINT) END"
    )


def _to_bool(value: str, cast: str, safe: bool) -> str:
    is_wrong = f"typeof({value}) = 'VARCHAR' AND lower({_text(value)}) NOT IN ('true', 'false')"
    return f"CASE WHEN {is_wrong} THEN {_failure('Bad bool value', value, safe)} ELSE {cast}({value} AS BOOLEAN) END"
