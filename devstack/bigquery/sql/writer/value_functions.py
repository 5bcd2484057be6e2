"""Writes the functions of numbers, text and structs that need more than the templates in `functions.py`."""

from __future__ import annotations

import re

from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.json_text import FUNCTION
from devstack.bigquery.sql.runtime_errors import error_sql, string_literal, unsupported_when
from devstack.bigquery.sql.writer.casts import conversion_sql
from devstack.bigquery.sql.writer.columns_and_structs import struct_sql
from devstack.bigquery.sql.writer.function_calls import special_function
from devstack.bigquery.sql.writer.node_writer import PARAMETERS, Writer, invalid_call, literal_text
from devstack.bigquery.sql.writer.operators import division_sql

_ROUNDING = {"ROUND": "round", "TRUNC": "trunc", "CEIL": "ceil", "FLOOR": "floor"}
_FORMAT_ITEM = re.compile(r"%(?P<flags>[^a-zA-Z%]*)(?P<kind>[a-zA-Z%]|\Z)")
_PRECISION = re.compile(r"\.\d{1,2}")
# A pattern, as SQL text, of the DuckDB types whose JSON differs from BigQuery's. The JSON of long integers differs too:
# BigQuery quotes them.
_TYPES_WITH_OTHER_JSON = "'DOUBLE|FLOAT|DECIMAL|TIMESTAMP|BLOB|TIME|HUGEINT'"


@special_function("STRUCT")
def _struct(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    return struct_sql(writer, arguments)


@special_function("SAFE_DIVIDE")
def _safe_divide(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) != 2:
        raise invalid_call(name, len(arguments), "2")
    return division_sql(writer.write(arguments[0]), writer.write(arguments[1]), "NULL")


@special_function(*_ROUNDING)
def _round(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if (name, len(arguments)) in (("ROUND", 3), ("TRUNC", 2)):
        raise NotImplementedConstruct("ROUND with a rounding mode" if name == "ROUND" else "TRUNC with digits")
    allowed = (1, 2) if name == "ROUND" else (1,)
    if len(arguments) not in allowed:
        raise invalid_call(name, len(arguments), " or ".join(map(str, allowed)))
    value = writer.write(arguments[0])
    digits = f", CAST({writer.write(arguments[1])} AS INTEGER)" if len(arguments) == 2 else ""
    rounded = f"{_ROUNDING[name]}(CAST({value} AS DOUBLE){digits})"
    numeric_condition = f"typeof({value}) LIKE 'DECIMAL%'"
    return f"({unsupported_when(numeric_condition, f'{name} of NUMERIC', rounded)})"


@special_function("STRING")
def _string(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if not arguments:
        raise invalid_call(name, 0, "1 or 2")
    if len(arguments) > 1:
        raise NotImplementedConstruct("STRING with a time zone")
    return conversion_sql(writer.write(arguments[0]), "STRING")


@special_function("REGEXP_EXTRACT")
def _regexp_extract(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) < 2:
        raise invalid_call(name, len(arguments), "2 to 4")
    if len(arguments) > 2:
        raise NotImplementedConstruct("REGEXP_EXTRACT with a position")
    pattern = literal_text(writer, arguments[1], "REGEXP_EXTRACT pattern")
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise NotImplementedConstruct(f"REGEXP_EXTRACT pattern [{pattern}] ({error})") from error
    if groups > 1:
        raise InvalidQuery(
            "Regular expressions passed into extraction functions must not have more than 1 capturing group"
        )
    text, expression = writer.write(arguments[0]), string_literal(pattern)
    # Unlike DuckDB's regexp_extract, this function gives NULL for a group that took no part in the match.
    found = f"regexp_extract_all({text}, {expression}, {groups})[1]"
    return f"CASE WHEN regexp_matches({text}, {expression}) THEN {found} END"


@special_function("TO_JSON_STRING")
def _to_json_string(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if not arguments:
        raise invalid_call(name, 0, "1 or 2")
    if len(arguments) > 1:
        raise NotImplementedConstruct("TO_JSON_STRING with pretty printing")
    value = writer.write(arguments[0])
    json = f"CAST(to_json({value}) AS VARCHAR)"
    differs = f"regexp_matches(typeof({value}), {_TYPES_WITH_OTHER_JSON}) OR regexp_matches({json}, '[0-9]{{16,}}')"
    return f"(CASE WHEN {differs} THEN {FUNCTION}({json}, typeof({value})) ELSE coalesce({json}, 'null') END)"


@special_function("FORMAT")
def _format(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    """Supports %s, %d and %t without flags, %e with a precision, and %%."""
    if not arguments:
        raise invalid_call(name, 0, "1 or more")
    values = writer.write_all(arguments[1:])
    template = literal_text(writer, arguments[0], "FORMAT text")
    if writer.check_only and isinstance(arguments[0], PARAMETERS):
        return "NULL"
    pieces, position, used = [], 0, 0
    for item in _FORMAT_ITEM.finditer(template):
        pieces.append(string_literal(template[position : item.start()]))
        position = item.end()
        if item["kind"] == "%":
            pieces.append("'%'")
            continue
        is_scientific = item["kind"] == "e" and _PRECISION.fullmatch(item["flags"])
        if not is_scientific and (item["flags"] or item["kind"] not in ("s", "d", "t")):
            raise NotImplementedConstruct(f"FORMAT element {item.group()}")
        if used == len(values):
            raise InvalidQuery(f"Too few arguments to FORMAT for pattern [{template}]")
        pieces.append(
            _scientific(item.group(), values[used]) if is_scientific else _formatted(item["kind"], values[used])
        )
        used += 1
    if used != len(values):
        raise InvalidQuery(f"Too many arguments to FORMAT for pattern [{template}]: [{len(values)}], expected [{used}]")
    pieces.append(string_literal(template[position:]))
    return f"({' || '.join(pieces)})"


def _scientific(element: str, value: str) -> str:
    """FORMAT of one value with `element`, such as `%.3e`. BigQuery writes NaN and negative zero without a sign."""
    number = f"TRY_CAST(CAST({value} AS VARCHAR) AS DOUBLE)"
    text = (
        f"CASE WHEN isnan({number}) THEN 'nan' WHEN {number} = 0 THEN printf('{element}', 0.0::DOUBLE) "
        f"ELSE printf('{element}', {number}) END"
    )
    return unsupported_when(f"typeof({value}) <> 'DOUBLE'", f"FORMAT {element} of other types than FLOAT64", text)


def _formatted(kind: str, value: str) -> str:
    if kind == "d":
        integer_condition = f"typeof({value}) IN ('BIGINT', 'INTEGER', 'HUGEINT')"
        wrong = error_sql(f"'Invalid type for argument of FORMAT %d: ' || typeof({value})")
        return f"CASE WHEN {integer_condition} THEN CAST({value} AS VARCHAR) ELSE {wrong} END"
    if kind == "t":
        return f"coalesce({conversion_sql(value, 'STRING')}, 'NULL')"
    wrong = error_sql(f"'Invalid type for argument of FORMAT %s: ' || typeof({value})")
    return f"CASE WHEN typeof({value}) = 'VARCHAR' THEN CAST({value} AS VARCHAR) ELSE {wrong} END"
