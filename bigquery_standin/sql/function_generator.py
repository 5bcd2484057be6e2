"""Writes calls of functions as DuckDB SQL. A call of a function that is not listed here is refused.

A scalar function F is the macro bq_f in functions.sql, and SAFE.F is bq_safe_f. A macro gets a date part, such as DAY,
as text, and an INTERVAL as two arguments: its amount and its unit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC
from pathlib import Path

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.literals import string_literal, value_literal
from bigquery_standin.sql.syntax import construct_name, integer_literal
from bigquery_standin.sql.value_generator import ValueGenerator

MACROS = Path(__file__).with_name("functions.sql").read_text(encoding="utf-8")
_MACRO = re.compile(r"^CREATE MACRO bq_(\w+)(.*?);$", re.DOTALL | re.MULTILINE)
_ARGUMENTS = re.compile(r"^ *\(([\w, ]*)\) AS\s", re.MULTILINE)


def _argument_counts(definitions: str) -> frozenset[int]:
    return frozenset(arguments.count(",") + 1 for arguments in _ARGUMENTS.findall(definitions))


# By name: the possible numbers of arguments.
_SCALAR: Mapping[str, frozenset[int]] = {
    macro[1].upper(): _argument_counts(macro[2]) for macro in _MACRO.finditer(MACROS)
}
_VARIADIC = ("COALESCE", "CONCAT", "GREATEST")  # one or more arguments
_AGGREGATES = {
    "ANY_VALUE": "any_value",
    "ARRAY_AGG": "list",
    "AVG": "avg",
    "COUNT": "count",
    "COUNTIF": "count_if",
    "LOGICAL_AND": "bool_and",
    "LOGICAL_OR": "bool_or",
    "MAX": "max",
    "MIN": "min",
    "STRING_AGG": "string_agg",
    "SUM": "sum",
}
_CLAUSES = (exp.Limit, exp.Order, exp.IgnoreNulls, exp.RespectNulls, exp.Distinct)
Clauses = dict[type[exp.Expr], exp.Expr]
_TIMES, _DATES = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"), ("DAY", "MONTH", "QUARTER", "YEAR")
# The date parts and units that functions accept. Weeks are refused: they begin on Monday in DuckDB, in BigQuery on
# Sunday.
_PARTS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("DATE_ADD", "DATE_SUB", "DATE_DIFF", "DATE_TRUNC"), _DATES),
    **dict.fromkeys(("TIMESTAMP_ADD", "TIMESTAMP_SUB", "TIMESTAMP_DIFF"), (*_TIMES, "DAY")),
    "TIMESTAMP_TRUNC": (*_TIMES, *_DATES),
}
_PART_POSITIONS = {"DATE_DIFF": 2, "DATE_TRUNC": 1, "TIMESTAMP_DIFF": 2, "TIMESTAMP_TRUNC": 1}


class FunctionGenerator(ValueGenerator):
    """Adds scalar functions, aggregates and ROW_NUMBER."""

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name, arguments = expression.name.upper(), expression.expressions
        if isinstance(expression.this, exp.Identifier):
            raise NotImplementedConstruct(f"function `{expression.name}` (quoted name)")
        if name in _AGGREGATES:
            return self._aggregate(name, arguments)
        if name == "ROW_NUMBER":
            raise InvalidQuery("Analytic function row_number cannot be called without an OVER clause")
        if name == "STRUCT":
            return self.struct(arguments)
        if name == "REGEXP_EXTRACT":
            return self._regexp_extract(arguments)
        if name in ("CURRENT_DATE", "CURRENT_TIMESTAMP") and not arguments:
            return self._current(name)
        return _scalar(name, self._arguments(name, arguments))

    def safefunc_sql(self, expression: exp.SafeFunc) -> str:
        call = expression.this
        if not isinstance(call, exp.Anonymous) or f"SAFE_{call.name.upper()}" not in _SCALAR:
            raise NotImplementedConstruct(f"SAFE. before {construct_name(call)}")
        return _scalar(f"SAFE_{call.name.upper()}", [self.sql(argument) for argument in call.expressions])

    def _arguments(self, function: str, nodes: list[exp.Expr]) -> list[str]:
        written: list[str] = []
        for position, node in enumerate(nodes):
            if isinstance(node, exp.Interval) and function in _PARTS:
                written += self._interval(function, node)
            elif position == _PART_POSITIONS.get(function):
                written.append(_part(function, node))
            else:
                written.append(self.sql(node))
        return written

    def interval_sql(self, expression: exp.Interval) -> str:
        raise NotImplementedConstruct(construct_name(expression))

    def _interval(self, function: str, node: exp.Interval) -> list[str]:
        """The amount and the unit of an INTERVAL."""
        amount, unit = node.this, node.args.get("unit")
        if not isinstance(unit, exp.Var) or amount is None:
            raise NotImplementedConstruct("INTERVAL with several parts")
        if isinstance(amount, exp.Literal) and not amount.name.lstrip("-").isdigit():
            raise NotImplementedConstruct(f"INTERVAL of '{amount.name}'")
        written = amount.name if isinstance(amount, exp.Literal) else self.sql(amount)
        return [written, _part(function, unit)]

    def currentdate_sql(self, expression: exp.CurrentDate) -> str:
        return self._current("CURRENT_DATE")

    def currenttimestamp_sql(self, expression: exp.CurrentTimestamp) -> str:
        return self._current("CURRENT_TIMESTAMP")

    def _current(self, name: str) -> str:
        now, kind = self.context.now.astimezone(UTC), name.removeprefix("CURRENT_")
        return value_literal(QueryValue.scalar(kind, now.date() if kind == "DATE" else now))

    def window_sql(self, expression: exp.Window) -> str:
        call = expression.this
        name = construct_name(call).removeprefix("function ")
        if name != "ROW_NUMBER" or call.expressions:
            raise NotImplementedConstruct(f"{name} with an OVER clause")
        clauses = (self.partition_by_sql(expression), self.sql(expression, "order").strip())
        return f"row_number() OVER ({' '.join(filter(None, clauses))})"

    def _aggregate(self, name: str, items: list[exp.Expr]) -> str:
        arguments, clauses = _arguments_and_clauses(items)
        counts = (1, 2) if name == "STRING_AGG" else (1,)
        if len(arguments) not in counts:
            raise _invalid_call(name, len(arguments), counts)
        _refuse_clauses(name, arguments, clauses)
        if isinstance(arguments[0], exp.Star):
            return "count(*)"
        first, *others = (self.sql(argument) for argument in arguments)
        if name == "MIN":  # NaN if there is any, as in BigQuery: for DuckDB, NaN is the greatest number
            return f"CASE WHEN bool_or(own_is_nan({first})) THEN max({first}) ELSE min({first}) END"
        if name == "AVG":
            first = f"own_float('AVG', {first}, CAST({first} AS DOUBLE))"
        if name == "STRING_AGG" and not others:
            others = ["','"]
        order = f" ORDER BY {self.expressions(clauses[exp.Order])}" if exp.Order in clauses else ""
        null_filter = f" FILTER (WHERE {first} IS NOT NULL)" if exp.IgnoreNulls in clauses else ""
        listed = ("DISTINCT " if exp.Distinct in clauses else "") + first
        if exp.Limit in clauses:
            limit = integer_literal(clauses[exp.Limit].args["expression"])
            return f"(list({listed}{order}){null_filter})[1:{limit}]"
        called = f"{_AGGREGATES[name]}({', '.join((listed, *others))}{order}){null_filter}"
        return f"CAST(COALESCE({called}, 0) AS BIGINT)" if name == "COUNTIF" else called

    def _regexp_extract(self, arguments: list[exp.Expr]) -> str:
        """The pattern is a literal, because the SQL depends on whether it has a group."""
        if len(arguments) != 2:
            raise NotImplementedConstruct(f"REGEXP_EXTRACT with [{len(arguments)}] arguments")
        text, node = self.sql(arguments[0]), arguments[1]
        if not isinstance(node, exp.Literal | exp.RawString):
            raise NotImplementedConstruct("REGEXP_EXTRACT with a pattern that is not a literal")
        pattern = node.name
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise NotImplementedConstruct(f"REGEXP_EXTRACT pattern [{pattern}] ({error})") from error
        if groups > 1:
            raise InvalidQuery(
                "Regular expressions passed into extraction functions must not have more than 1 capturing group"
            )
        # Unlike DuckDB's regexp_extract, this function gives NULL for a group that took no part in the match.
        found = f"regexp_extract_all({text}, {string_literal(pattern)}, {groups})[1]"
        return f"CASE WHEN regexp_matches({text}, {string_literal(pattern)}) THEN {found} END"


def _part(function: str, node: exp.Expr) -> str:
    """A date part, or the unit of an INTERVAL, as text."""
    part = node.name.upper()
    if isinstance(node, exp.Anonymous) or part not in (*_TIMES, *_DATES):
        raise NotImplementedConstruct(f"date part {part} of {function}")
    if part not in _PARTS[function]:
        raise InvalidQuery(f"{function} has the date part [{part}], expected one of [{', '.join(_PARTS[function])}]")
    return f"'{part.lower()}'"


def _scalar(name: str, arguments: list[str]) -> str:
    if name in _SCALAR:
        if len(arguments) not in _SCALAR[name]:
            raise _invalid_call(name, len(arguments), _SCALAR[name])
        return f"bq_{name.lower()}({', '.join(arguments)})"
    if name not in _VARIADIC:
        raise NotImplementedConstruct(f"function {name}")
    if not arguments:
        raise InvalidQuery(f"No matching signature for function {name}: it needs an argument")
    if name == "CONCAT":
        return f"({' || '.join(arguments)})"
    called = f"{name.lower()}({', '.join(arguments)})"
    if name == "COALESCE":
        return called
    any_null = " OR ".join(f"{argument} IS NULL" for argument in arguments)  # GREATEST of DuckDB leaves NULL out
    return f"(CASE WHEN {any_null} THEN NULL ELSE {called} END)"


def _invalid_call(name: str, count: int, expected: Collection[int]) -> InvalidQuery:
    numbers = " or ".join(map(str, sorted(expected)))
    return InvalidQuery(f"No matching signature for function {name}: [{count}] arguments, expected [{numbers}]")


def _arguments_and_clauses(items: list[exp.Expr]) -> tuple[list[exp.Expr], Clauses]:
    """Separates the arguments of an aggregate from the clauses inside its parentheses.

    SQLGlot puts DISTINCT around all arguments, and each other clause around the DISTINCT or, without one, around the
    last argument.
    """
    arguments, clauses = list(items), Clauses()
    while arguments and isinstance(arguments[-1], _CLAUSES):
        last = arguments[-1]
        clauses[type(last)] = last
        arguments[-1:] = last.expressions if isinstance(last, exp.Distinct) else [last.this]
    return arguments, clauses


def _refuse_clauses(name: str, arguments: list[exp.Expr], clauses: Clauses) -> None:
    """Raises InvalidQuery for a clause inside the parentheses that the function cannot have."""
    if {exp.Order, exp.Limit} & clauses.keys() and name not in ("ARRAY_AGG", "STRING_AGG"):
        raise InvalidQuery(f"Aggregate function {name} does not support ORDER BY or LIMIT in its arguments")
    if {exp.IgnoreNulls, exp.RespectNulls} & clauses.keys() and name != "ARRAY_AGG":
        raise InvalidQuery(f"IGNORE NULLS and RESPECT NULLS are not allowed for aggregate function {name.lower()}")
    if isinstance(arguments[0], exp.Star) and (name != "COUNT" or exp.Distinct in clauses):
        raise InvalidQuery(f"Argument * can only be used in COUNT(*), not {name}(*), and not with DISTINCT")
    if exp.Limit in clauses and name != "ARRAY_AGG":
        raise NotImplementedConstruct(f"LIMIT in {name}")
    # BigQuery's documentation does not say whether LIMIT 0 gives an empty array or NULL: it is refused.
    if exp.Limit in clauses and (integer_literal(clauses[exp.Limit].args["expression"]) or 0) < 1:
        raise NotImplementedConstruct("LIMIT of an aggregate that is not one positive integer literal")
