"""Writes INTERVALs and the functions of dates and times, all in UTC.

Weeks are refused, except as a distance: they begin on Monday in DuckDB, and on Sunday in BigQuery.
"""

from __future__ import annotations

import re
from datetime import UTC

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.runtime_errors import string_literal, unsupported_when
from bigquery_standin.sql.writer.function_calls import special_function
from bigquery_standin.sql.writer.literals import value_literal
from bigquery_standin.sql.writer.node_writer import Writer, construct_name, handles, invalid_call, literal_text

# By unit: the DuckDB function, the factor of the amount, and the type of the function's argument.
_INTERVAL_UNITS = {
    "MICROSECOND": ("to_microseconds", 1, "BIGINT"),
    "MILLISECOND": ("to_milliseconds", 1, "BIGINT"),
    "SECOND": ("to_seconds", 1, "BIGINT"),
    "MINUTE": ("to_minutes", 1, "BIGINT"),
    "HOUR": ("to_hours", 1, "BIGINT"),
    "DAY": ("to_days", 1, "INTEGER"),
    "WEEK": ("to_days", 7, "INTEGER"),
    "MONTH": ("to_months", 1, "INTEGER"),
    "QUARTER": ("to_months", 3, "INTEGER"),
    "YEAR": ("to_months", 12, "INTEGER"),
}
TIME_UNITS = frozenset({"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"})
DATE_UNITS = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
# By the type that a date function takes: the types that are refused, first as a condition on DuckDB's `typeof`, then as
# the error message names them. `_value` says why.
_REFUSED_TYPES = {"DATE": ("LIKE 'TIMESTAMP%'", "TIMESTAMP or DATETIME"), "TIMESTAMP": ("= 'TIMESTAMP'", "DATETIME")}
_TYPES = {"DATE": "DATE", "DATETIME": "TIMESTAMP", "TIMESTAMP": "TIMESTAMPTZ"}  # DuckDB's types
# The units of the INTERVALs that the functions of each type accept.
_UNITS = {"DATE": DATE_UNITS, "TIMESTAMP": TIME_UNITS | {"DAY"}}
_FORMAT_ELEMENT = re.compile(r"%(.|\Z)", re.DOTALL)
_FORMATS = {"Y": "%Y", "m": "%m", "d": "%d", "F": "%Y-%m-%d"}  # DuckDB's format elements, by BigQuery's without `%`
_EXTRACTED_PARTS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE")


def interval_sql(writer: Writer, node: exp.Expr, units: frozenset[str] = TIME_UNITS | DATE_UNITS) -> str:
    """SQL of a DuckDB interval. `units`: those that the function around the INTERVAL accepts.

    Raises InvalidQuery for another unit, NotImplementedConstruct for anything but an INTERVAL with one supported unit,
    and for a literal amount that is not a whole number.
    """
    if not isinstance(node, exp.Interval):
        raise NotImplementedConstruct(f"{construct_name(node)} in place of INTERVAL")
    unit_node, amount = node.args.get("unit"), node.this
    if not isinstance(unit_node, exp.Var) or amount is None:
        raise NotImplementedConstruct("INTERVAL with several parts")
    unit = unit_node.name.upper()
    if unit not in _INTERVAL_UNITS:
        raise NotImplementedConstruct(f"INTERVAL unit {unit}")
    if unit not in units:
        raise InvalidQuery(f"The unit of the INTERVAL is [{unit}], expected one of [{', '.join(sorted(units))}]")
    function, factor, kind = _INTERVAL_UNITS[unit]
    if isinstance(amount, exp.Literal):
        if not amount.name.lstrip("-").isdigit():
            raise NotImplementedConstruct(f"INTERVAL of '{amount.name}'")
        return f"{function}(CAST({int(amount.name) * factor} AS {kind}))"
    return f"{function}(CAST(({writer.write(amount)}) * {factor} AS {kind}))"


@handles(exp.CurrentDate, exp.CurrentTimestamp, supported_args="")
def _current_without_parentheses(writer: Writer, node: exp.Expr) -> str:
    return _current(writer, node.key.upper().replace("CURRENT", "CURRENT_"), [])


@special_function("CURRENT_DATE", "CURRENT_TIMESTAMP")
def _current(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    _refuse_other_zones_than_utc(writer, arguments)
    now = writer.now.astimezone(UTC)
    if name == "CURRENT_DATE":
        return value_literal(QueryValue.scalar("DATE", now.date()))
    return value_literal(QueryValue.scalar("TIMESTAMP", now))


def _refuse_other_zones_than_utc(writer: Writer, zone: list[exp.Expr]) -> None:
    if zone and literal_text(writer, zone[0], "time zone").upper() not in ("UTC", "ETC/UTC", "+00:00", ""):
        raise NotImplementedConstruct(f"time zone {zone[0].name}")


@special_function("DATE", "DATETIME", "TIMESTAMP")
def _constructor(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if not arguments:
        raise invalid_call(name, 0, "1 or 2")
    if len(arguments) > 2 or (name == "DATETIME" and len(arguments) == 2):
        raise NotImplementedConstruct(f"{name} of {len(arguments)} arguments")
    _refuse_other_zones_than_utc(writer, arguments[1:])
    return f"CAST({writer.write(arguments[0])} AS {_TYPES[name]})"


def _value(writer: Writer, kind: str, node: exp.Expr) -> str:
    """An argument, cast to the type `kind`: DATE or TIMESTAMP.

    DuckDB converts from more types than BigQuery does, so values of `_REFUSED_TYPES` are refused at run time.
    """
    value_sql = writer.write(node)
    converted = f"CAST({value_sql} AS {_TYPES[kind]})"
    if isinstance(node, exp.Cast | exp.Literal):
        return converted
    condition, types = _REFUSED_TYPES[kind]
    return f"({unsupported_when(f'typeof({value_sql}) {condition}', f'{kind} function of a {types}', converted)})"


@special_function("DATE_ADD", "DATE_SUB", "TIMESTAMP_ADD", "TIMESTAMP_SUB")
def _shift(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) != 2:
        raise invalid_call(name, len(arguments), "2")
    kind, _, operation = name.partition("_")
    symbol = "+" if operation == "ADD" else "-"
    distance = interval_sql(writer, arguments[1], frozenset(_UNITS[kind]))
    return f"CAST(({_value(writer, kind, arguments[0])} {symbol} {distance}) AS {_TYPES[kind]})"


@special_function("DATE_DIFF", "TIMESTAMP_DIFF")
def _difference(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) != 3:
        raise invalid_call(name, len(arguments), "3")
    kind = name.removesuffix("_DIFF")
    later, earlier = (_value(writer, kind, argument) for argument in arguments[:2])
    part = _part(arguments[2], _UNITS[kind])
    function = "date_sub" if kind == "TIMESTAMP" else "date_diff"  # whole units, or boundaries of units
    return f"{function}('{part}', {earlier}, {later})"


@special_function("DATE_TRUNC", "TIMESTAMP_TRUNC")
def _truncate(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) not in (2, 3):
        raise invalid_call(name, len(arguments), "2")
    _refuse_other_zones_than_utc(writer, arguments[2:])
    kind = name.removesuffix("_TRUNC")
    part = _part(arguments[1], DATE_UNITS if kind == "DATE" else DATE_UNITS | TIME_UNITS)
    return f"CAST(date_trunc('{part}', {_value(writer, kind, arguments[0])}) AS {_TYPES[kind]})"


def _part(node: exp.Expr, units: frozenset[str]) -> str:
    """The date part for DuckDB. Raises NotImplementedConstruct for WEEK, InvalidQuery for one not in `units`."""
    part = node.name.upper()
    if part == "WEEK" or part not in DATE_UNITS | TIME_UNITS:
        raise NotImplementedConstruct(f"date part {part}")
    if part not in units:
        raise InvalidQuery(f"Date part [{part}] is not valid here, expected one of {sorted(units)}")
    return part.lower()


@handles(exp.Extract, supported_args="this expression")
def _extract(writer: Writer, node: exp.Extract) -> str:
    part = node.this.name.upper()
    if part not in _EXTRACTED_PARTS:
        raise NotImplementedConstruct(f"EXTRACT part {part}")
    return f"extract({part.lower()} FROM {writer.write(node.expression)})"


@special_function("FORMAT_DATE", "PARSE_DATE")
def _formatted(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) != 2:
        raise invalid_call(name, len(arguments), "2")
    text = literal_text(writer, arguments[0], f"{name} format")
    elements = _FORMAT_ELEMENT.findall(text)
    is_whole_date = set(elements) in ({"F"}, {"Y", "m", "d"})  # DuckDB and BigQuery complete others differently
    if not set(elements) <= _FORMATS.keys() or (name == "PARSE_DATE" and text and not is_whole_date):
        raise NotImplementedConstruct(f"{name} with the format [{text}]")
    format_sql = string_literal(_FORMAT_ELEMENT.sub(lambda element: _FORMATS[element[1]], text))
    if name == "PARSE_DATE":
        return f"CAST(strptime({writer.write(arguments[1])}, {format_sql}) AS DATE)"
    return f"strftime({_value(writer, 'DATE', arguments[1])}, {format_sql})"
