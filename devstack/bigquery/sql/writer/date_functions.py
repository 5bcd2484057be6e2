"""Writes date and time functions: current time, date parts, arithmetic and formats, all in UTC."""

from __future__ import annotations

import re
from datetime import UTC

from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.field_types import QueryValue
from devstack.bigquery.sql.runtime_errors import string_literal, unsupported_when
from devstack.bigquery.sql.writer.function_calls import special_function
from devstack.bigquery.sql.writer.intervals import DATE_UNITS, TIME_UNITS, interval_sql, parse_date_part
from devstack.bigquery.sql.writer.literals import value_literal
from devstack.bigquery.sql.writer.node_writer import Writer, handles, invalid_call, literal_text

# By the type that a date function takes: the types that are refused, first as a condition on DuckDB's `typeof`, then as
# the error message names them. `_value` says why.
_REFUSED_TYPES = {"DATE": ("LIKE 'TIMESTAMP%'", "TIMESTAMP or DATETIME"), "TIMESTAMP": ("= 'TIMESTAMP'", "DATETIME")}
_TYPES = {"DATE": "DATE", "DATETIME": "TIMESTAMP", "TIMESTAMP": "TIMESTAMPTZ"}  # DuckDB's types
# The date parts that the functions of each type accept. TIMESTAMP_TRUNC accepts those of DATETIME.
_UNITS = {
    "DATE": DATE_UNITS,
    "DATETIME": DATE_UNITS | TIME_UNITS,
    "TIMESTAMP": TIME_UNITS | {"DAY"},
}
_FORMAT_ITEM = re.compile(r"%(E\d?[A-Z*]?S?|.|\Z)", re.DOTALL)
_FORMATS = {  # DuckDB's format elements, by BigQuery's without `%`
    **{letter: f"%{letter}" for letter in "YmdHMSjbBaAyp%I"},
    "F": "%Y-%m-%d",
    "T": "%H:%M:%S",
    "R": "%H:%M",
    "D": "%m/%d/%y",
    "E6S": "%S.%f",
}
_YEARS = ("%Y", "%y", "%F", "%D")
_TIME_FORMATS = {"H", "M", "S", "p", "I", "T", "R", "E6S"}  # not allowed in a DATE's format
# Parts that DuckDB's `extract` computes as BigQuery's does.
_DIRECT_PARTS = {"YEAR", "MONTH", "DAY", "QUARTER", "HOUR", "MINUTE", "ISOYEAR"}


@handles(exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentDatetime, supported_args="")
def _current_without_parentheses(writer: Writer, node: exp.Expr) -> str:
    return _current(writer, node.key.upper().replace("CURRENT", "CURRENT_"), [])


@special_function("CURRENT_DATE", "CURRENT_TIMESTAMP", "CURRENT_DATETIME")
def _current(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    _refuse_other_zones_than_utc(writer, arguments)
    now = writer.now.astimezone(UTC)
    if name == "CURRENT_DATE":
        return value_literal(QueryValue.scalar("DATE", now.date()))
    if name == "CURRENT_DATETIME":
        return value_literal(QueryValue.scalar("DATETIME", now.replace(tzinfo=None)))
    return value_literal(QueryValue.scalar("TIMESTAMP", now))


def _refuse_other_zones_than_utc(writer: Writer, zone: list[exp.Expr]) -> None:
    if zone and literal_text(writer, zone[0], "time zone").upper() not in ("UTC", "ETC/UTC", "+00:00", ""):
        raise NotImplementedConstruct(f"time zone {zone[0].name}")


@special_function("DATE", "DATETIME", "TIMESTAMP")
def _constructor(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    parts = {"DATE": ("make_date", 3), "DATETIME": ("make_timestamp", 6)}
    if name in parts and len(arguments) == parts[name][1]:
        return f"{parts[name][0]}({', '.join(writer.write_all(arguments))})"
    if len(arguments) not in (1, 2):
        raise invalid_call(name, len(arguments), "1 or 2" + (f" or {parts[name][1]}" if name in parts else ""))
    if name == "DATETIME" and len(arguments) == 2:
        raise NotImplementedConstruct("DATETIME of two arguments")
    _refuse_other_zones_than_utc(writer, arguments[1:])
    return f"CAST({writer.write(arguments[0])} AS {_TYPES[name]})"


def _value(writer: Writer, kind: str, node: exp.Expr) -> str:
    """An argument, cast to the type `kind`: DATE, DATETIME or TIMESTAMP.

    DuckDB converts from more types than BigQuery does, so values of `_REFUSED_TYPES` are refused at run time.
    """
    value_sql = writer.write(node)
    converted = f"CAST({value_sql} AS {_TYPES[kind]})"
    if kind not in _REFUSED_TYPES or isinstance(node, exp.Cast | exp.Literal):
        return converted
    condition, types = _REFUSED_TYPES[kind]
    return f"({unsupported_when(f'typeof({value_sql}) {condition}', f'{kind} function of a {types}', converted)})"


@special_function("DATE_ADD", "DATE_SUB", "DATETIME_ADD", "DATETIME_SUB", "TIMESTAMP_ADD", "TIMESTAMP_SUB")
def _shift(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) != 2:
        raise invalid_call(name, len(arguments), "2")
    kind, _, operation = name.partition("_")
    symbol = "+" if operation == "ADD" else "-"
    distance = interval_sql(writer, arguments[1], frozenset(_UNITS[kind]))
    return f"CAST(({_value(writer, kind, arguments[0])} {symbol} {distance}) AS {_TYPES[kind]})"


@special_function("DATE_DIFF", "DATETIME_DIFF", "TIMESTAMP_DIFF")
def _difference(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) != 3:
        raise invalid_call(name, len(arguments), "3")
    kind = name.removesuffix("_DIFF")
    later, earlier = (_value(writer, kind, argument) for argument in arguments[:2])
    part, week_shift = _part(kind, arguments[2])
    if kind == "TIMESTAMP":  # counts whole units, not boundaries
        return f"date_sub('{part.lower()}', {earlier}, {later})"
    if part == "WEEK":  # DuckDB counts periods of seven days, BigQuery starts of weeks
        first, last = (f"date_trunc('week', {value} - to_days({week_shift}))" for value in (earlier, later))
        return f"(date_diff('day', {first}, {last}) // 7)"
    return f"date_diff('{part.lower()}', {earlier}, {later})"


@special_function("DATE_TRUNC", "DATETIME_TRUNC", "TIMESTAMP_TRUNC")
def _truncate(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) not in (2, 3):
        raise invalid_call(name, len(arguments), "2")
    _refuse_other_zones_than_utc(writer, arguments[2:])
    kind = name.removesuffix("_TRUNC")
    part, week_shift = _part("DATETIME" if kind == "TIMESTAMP" else kind, arguments[1])
    value = _value(writer, kind, arguments[0])
    if week_shift:
        value = f"date_trunc('week', {value} - to_days({week_shift})) + to_days({week_shift})"
        return f"CAST(({value}) AS {_TYPES[kind]})"
    return f"CAST(date_trunc('{part.lower()}', {value}) AS {_TYPES[kind]})"


def _part(kind: str, node: exp.Expr) -> tuple[str, int]:
    """The date part and, for WEEK, how many days after Monday a week begins; 0 for other parts.

    Raises NotImplementedConstruct for an unsupported part, InvalidQuery for one that the type `kind` does not have.
    """
    part, week_shift = parse_date_part(node)
    if part not in DATE_UNITS | TIME_UNITS:
        raise NotImplementedConstruct(f"date part {part}")
    if part not in _UNITS[kind]:
        raise InvalidQuery(f"Date part [{part}] is not valid for {kind}, expected one of {sorted(_UNITS[kind])}")
    return part, week_shift


@special_function("LAST_DAY")
def _last_day(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) != 1 and (len(arguments) != 2 or arguments[1].name.upper() != "MONTH"):
        raise NotImplementedConstruct("LAST_DAY of a part other than MONTH")
    return f"last_day({_value(writer, 'DATE', arguments[0])})"


@special_function("GENERATE_DATE_ARRAY")
def _date_array(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) not in (2, 3):
        raise invalid_call(name, len(arguments), "2 or 3")
    step = arguments[2] if len(arguments) == 3 else None
    distance = interval_sql(writer, step) if step is not None else "to_days(1)"
    if isinstance(step, exp.Interval) and step.args["unit"].name.upper() not in ("DAY", "WEEK"):
        raise NotImplementedConstruct("GENERATE_DATE_ARRAY with a step other than DAY or WEEK")
    if isinstance(step, exp.Interval) and step.this.name == "0":
        raise InvalidQuery("Sequence step cannot be 0.")
    first, last = (f"CAST({_value(writer, 'DATE', argument)} AS TIMESTAMP)" for argument in arguments[:2])
    return f"list_transform(generate_series({first}, {last}, {distance}), lambda _d: CAST(_d AS DATE))"


@handles(exp.Extract, supported_args="this expression")
def _extract(writer: Writer, node: exp.Extract) -> str:
    if isinstance(node.expression, exp.AtTimeZone):
        raise NotImplementedConstruct("EXTRACT with AT TIME ZONE")
    part, week_shift = parse_date_part(node.this)
    value = writer.write(node.expression)
    if part == "WEEK" and not week_shift and node.this.name.upper() == "ISOWEEK":
        return f"extract(week FROM {value})"
    if part in _DIRECT_PARTS:
        return f"extract({part.lower()} FROM {value})"
    templates = {
        "DAYOFWEEK": "(extract(dow FROM {0}) + 1)",
        "DAYOFYEAR": "extract(doy FROM {0})",
        "SECOND": "CAST(floor(extract(second FROM {0})) AS BIGINT)",
        "MILLISECOND": "(extract(millisecond FROM {0}) % 1000)",
        "MICROSECOND": "(extract(microsecond FROM {0}) % 1000000)",
        "DATE": "CAST({0} AS DATE)",
    }
    if part not in templates:
        raise NotImplementedConstruct(f"EXTRACT part {part}")
    return templates[part].replace("{0}", value)


def _strftime(writer: Writer, node: exp.Expr, purpose: str) -> str:
    """BigQuery's format string as a DuckDB literal. `purpose`: the function's name, such as PARSE_DATE.

    Raises NotImplementedConstruct for an element without an equivalent, for a time element in a DATE's format, and for
    a format without a year in a PARSE function.
    """
    text, is_date = literal_text(writer, node, f"{purpose} format"), purpose.endswith("_DATE")

    def element(format_element: re.Match[str]) -> str:
        if format_element[1] not in _FORMATS or (is_date and format_element[1] in _TIME_FORMATS):
            raise NotImplementedConstruct(f"{purpose} element {format_element.group()}")
        return _FORMATS[format_element[1]]

    if purpose.startswith("PARSE_") and text and not any(year in text for year in _YEARS):
        raise NotImplementedConstruct(f"{purpose} without a year")  # DuckDB takes 1900, BigQuery 1970
    return string_literal(_FORMAT_ITEM.sub(element, text))


@special_function("FORMAT_DATE", "FORMAT_DATETIME", "FORMAT_TIMESTAMP")
def _format(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) not in (2, 3):
        raise invalid_call(name, len(arguments), "2")
    _refuse_other_zones_than_utc(writer, arguments[2:])
    value = _value(writer, name.removeprefix("FORMAT_"), arguments[1])
    return f"strftime({value}, {_strftime(writer, arguments[0], name)})"


@special_function("PARSE_DATE", "PARSE_DATETIME", "PARSE_TIMESTAMP")
def _parse(writer: Writer, name: str, arguments: list[exp.Expr]) -> str:
    if len(arguments) not in (2, 3):
        raise invalid_call(name, len(arguments), "2")
    _refuse_other_zones_than_utc(writer, arguments[2:])
    parsed = f"strptime({writer.write(arguments[1])}, {_strftime(writer, arguments[0], name)})"
    return f"CAST({parsed} AS {_TYPES[name.removeprefix('PARSE_')]})"
