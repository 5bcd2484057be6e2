"""Writes INTERVALs and the functions of dates and times as DuckDB SQL, all in UTC.

Weeks are refused, except as a distance: they begin on Monday in DuckDB, and on Sunday in BigQuery.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.constructor_generator import ConstructorGenerator
from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.literals import string_literal, value_literal
from bigquery_standin.sql.syntax import construct_name

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
_TIME_UNITS = frozenset({"MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"})
_DATE_UNITS = frozenset({"DAY", "WEEK", "MONTH", "QUARTER", "YEAR"})
# The units of the INTERVALs that the functions of each type accept.
_UNITS = {"DATE": _DATE_UNITS, "TIMESTAMP": _TIME_UNITS | {"DAY"}}
_TYPES = {"DATE": "DATE", "TIMESTAMP": "TIMESTAMPTZ"}  # DuckDB's types
_EXTRACTED_PARTS = ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE")
_FORMAT_ELEMENT = re.compile(r"%(.|\Z)", re.DOTALL)
_FORMATS = {"Y": "%Y", "m": "%m", "d": "%d", "F": "%Y-%m-%d"}  # DuckDB's format elements, by BigQuery's without `%`


class DateGenerator(ConstructorGenerator):
    """Adds INTERVALs and the functions of dates and times."""

    def interval_sql(self, expression: exp.Interval) -> str:
        raise NotImplementedConstruct(construct_name(expression))

    def _interval(self, node: exp.Expr, units: frozenset[str] = _TIME_UNITS | _DATE_UNITS) -> str:
        """SQL of a DuckDB interval. `units`: those that the function around the INTERVAL accepts.

        Raises InvalidQuery for another unit, NotImplementedConstruct for anything but an INTERVAL with one supported
        unit, and for a literal amount that is not a whole number.
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
        written = amount.name if isinstance(amount, exp.Literal) else self.sql(amount)
        if isinstance(amount, exp.Literal) and not amount.name.lstrip("-").isdigit():
            raise NotImplementedConstruct(f"INTERVAL of '{amount.name}'")
        function, factor, kind = _INTERVAL_UNITS[unit]
        return f"{function}(CAST(({written}) * {factor} AS {kind}))"

    def add_sql(self, expression: exp.Add | exp.Sub) -> str:
        if not isinstance(expression.expression, exp.Interval):
            return super().add_sql(expression)
        symbol = "+" if isinstance(expression, exp.Add) else "-"
        return f"{self.sql(expression.this)} {symbol} {self._interval(expression.expression)}"

    sub_sql = add_sql

    def currentdate_sql(self, expression: exp.CurrentDate) -> str:
        return self.current("CURRENT_DATE", [])

    def currenttimestamp_sql(self, expression: exp.CurrentTimestamp) -> str:
        return self.current("CURRENT_TIMESTAMP", [])

    def current(self, name: str, arguments: list[exp.Expr]) -> str:
        now, kind = self.context.now.astimezone(UTC), name.removeprefix("CURRENT_")
        written = value_literal(QueryValue.scalar(kind, now.date() if kind == "DATE" else now))
        return self._in_zone(written, arguments)

    def _in_zone(self, written: str, zone: list[exp.Expr]) -> str:
        return f"own_in_utc({written}, {self.sql(zone[0])})" if zone else written

    def shift(self, name: str, arguments: list[exp.Expr]) -> str:
        if len(arguments) != 2:
            raise invalid_call(name, len(arguments), "2")
        kind, _, operation = name.partition("_")
        symbol = "+" if operation == "ADD" else "-"
        distance = self._interval(arguments[1], frozenset(_UNITS[kind]))
        return f"CAST({self._value(kind, arguments[0])} {symbol} {distance} AS {_TYPES[kind]})"

    def difference(self, name: str, arguments: list[exp.Expr]) -> str:
        if len(arguments) != 3:
            raise invalid_call(name, len(arguments), "3")
        kind = name.removesuffix("_DIFF")
        later, earlier = (self._value(kind, argument) for argument in arguments[:2])
        part = _part(arguments[2], _UNITS[kind])
        function = "date_sub" if kind == "TIMESTAMP" else "date_diff"  # whole units, or boundaries of units
        return f"{function}('{part}', {earlier}, {later})"

    def truncate(self, name: str, arguments: list[exp.Expr]) -> str:
        if len(arguments) not in (2, 3):
            raise invalid_call(name, len(arguments), "2")
        kind = name.removesuffix("_TRUNC")
        part = _part(arguments[1], _DATE_UNITS if kind == "DATE" else _DATE_UNITS | _TIME_UNITS)
        truncated = f"CAST(date_trunc('{part}', {self._value(kind, arguments[0])}) AS {_TYPES[kind]})"
        return self._in_zone(truncated, arguments[2:])

    def _value(self, kind: str, node: exp.Expr) -> str:
        """An argument, converted to the type `kind`: DATE or TIMESTAMP."""
        return f"own_{kind.lower()}({self.sql(node)})"

    def extract_sql(self, expression: exp.Extract) -> str:
        part = expression.this.name.upper()
        if part not in _EXTRACTED_PARTS:
            raise NotImplementedConstruct(f"EXTRACT part {part}")
        return f"extract({part.lower()} FROM {self.sql(expression.expression)})"

    def formatted(self, name: str, arguments: list[exp.Expr]) -> str:
        if len(arguments) != 2:
            raise invalid_call(name, len(arguments), "2")
        text = self.constant_text(arguments[0], f"{name} format")
        if text is None:
            return "NULL"
        elements = _FORMAT_ELEMENT.findall(text)
        is_whole_date = set(elements) in ({"F"}, {"Y", "m", "d"})  # DuckDB and BigQuery complete others differently
        if not set(elements) <= _FORMATS.keys() or (name == "PARSE_DATE" and not is_whole_date):
            raise NotImplementedConstruct(f"{name} with the format [{text}]")
        format_sql = string_literal(_FORMAT_ELEMENT.sub(lambda element: _FORMATS[element[1]], text))
        if name == "PARSE_DATE":
            return f"CAST(strptime({self.sql(arguments[1])}, {format_sql}) AS DATE)"
        return f"strftime({self._value('DATE', arguments[1])}, {format_sql})"

    def constant_text(self, node: exp.Expr, purpose: str) -> str | None:
        """The text of a literal or parameter that must be known before the query runs, such as a format.

        None in a check, for a parameter, whose value is not known yet. Raises NotImplementedConstruct for any other
        expression. `purpose`: what the text is for, for the error message.
        """
        if (isinstance(node, exp.Literal) and node.is_string) or isinstance(node, exp.RawString):
            return str(node.name)
        if isinstance(node, exp.Parameter) and self.context.parameters is None:
            return None
        value = self.known_value(node)
        if value is None or not isinstance(value.value, str):
            raise NotImplementedConstruct(f"{purpose} that is not a literal")
        return value.value


def _part(node: exp.Expr, units: frozenset[str]) -> str:
    """The date part for DuckDB. Raises NotImplementedConstruct for WEEK, InvalidQuery for one not in `units`."""
    part = node.name.upper()
    if part == "WEEK" or part not in _DATE_UNITS | _TIME_UNITS:
        raise NotImplementedConstruct(f"date part {part}")
    if part not in units:
        raise InvalidQuery(f"Date part [{part}] is not valid here, expected one of {sorted(units)}")
    return part.lower()


def invalid_call(name: str, count: int, expected: str) -> InvalidQuery:
    """The error for a call with a wrong number of arguments. `expected`: the possible numbers, such as `1 or 2`."""
    return InvalidQuery(f"No matching signature for function {name}: [{count}] arguments, expected [{expected}]")


# Gets the generator, the function's upper-case name and its arguments. Returns the DuckDB SQL of the call.
WriteCall = Callable[[Any, str, list[exp.Expr]], str]
DATE_FUNCTIONS: Mapping[str, WriteCall] = {
    **dict.fromkeys(("CURRENT_DATE", "CURRENT_TIMESTAMP"), DateGenerator.current),
    **dict.fromkeys(("DATE_ADD", "DATE_SUB", "TIMESTAMP_ADD", "TIMESTAMP_SUB"), DateGenerator.shift),
    **dict.fromkeys(("DATE_DIFF", "TIMESTAMP_DIFF"), DateGenerator.difference),
    **dict.fromkeys(("DATE_TRUNC", "TIMESTAMP_TRUNC"), DateGenerator.truncate),
    **dict.fromkeys(("FORMAT_DATE", "PARSE_DATE"), DateGenerator.formatted),
}
