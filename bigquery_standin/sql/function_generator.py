"""Writes calls of functions as DuckDB SQL. A call of a function that is not listed here is refused.

The scalar functions are the macros in functions.sql. Those that need more than a macro, such as a literal format, are
methods.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.date_generator import DATE_FUNCTIONS, DateGenerator, WriteCall, invalid_call
from bigquery_standin.sql.literals import string_literal
from bigquery_standin.sql.syntax import integer_literal

MACROS = Path(__file__).with_name("functions.sql").read_text(encoding="utf-8")
_MACRO = re.compile(r"^CREATE MACRO bq_(\w+)(.*?);$", re.DOTALL | re.MULTILINE)
_ARGUMENTS = re.compile(r"^ *\(([\w, ]*)\) AS\s", re.MULTILINE)


def _argument_counts(definitions: str) -> frozenset[int]:
    return frozenset(arguments.count(",") + 1 for arguments in _ARGUMENTS.findall(definitions))


# By name: the possible numbers of arguments.
_SCALAR: Mapping[str, frozenset[int]] = {
    macro[1].upper(): _argument_counts(macro[2]) for macro in _MACRO.finditer(MACROS)
}
_VARIADIC = ("ARRAY_CONCAT", "COALESCE", "CONCAT", "GREATEST")  # one or more arguments
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
# Window functions, named as in DuckDB: the possible numbers of arguments.
_WINDOW = {
    **dict.fromkeys(("DENSE_RANK", "RANK", "ROW_NUMBER"), (0,)),
    **dict.fromkeys(("FIRST_VALUE", "LAST_VALUE"), (1,)),
    **dict.fromkeys(("LAG", "LEAD"), (1, 2, 3)),
}
_FRAME_KINDS = ("ROWS", "RANGE")
_CLAUSES = (exp.Limit, exp.Order, exp.IgnoreNulls, exp.RespectNulls, exp.Distinct)
Clauses = dict[type[exp.Expr], exp.Expr]
_FORMAT_ITEM = re.compile(r"%(?P<flags>[^a-zA-Z%]*)(?P<kind>[a-zA-Z%]|\Z)")
_PRECISION = re.compile(r"\.\d{1,2}")


class FunctionGenerator(DateGenerator):
    """Adds scalar, aggregate and window functions."""

    def anonymous_sql(self, expression: exp.Anonymous) -> str:
        name = expression.name.upper()
        if isinstance(expression.this, exp.Identifier):
            raise NotImplementedConstruct(f"function `{expression.name}` (quoted name)")
        if name in _AGGREGATES:
            return self._aggregate(name, expression.expressions, None)
        if name in _WINDOW:
            raise InvalidQuery(f"Analytic function {name.lower()} cannot be called without an OVER clause")
        if name in _SPECIAL:
            return _SPECIAL[name](self, name, expression.expressions)
        return _scalar(name, [self.sql(argument) for argument in expression.expressions])

    def safefunc_sql(self, expression: exp.SafeFunc) -> str:
        name = expression.this.name.upper()
        if name in (*_AGGREGATES, *_WINDOW):
            raise NotImplementedConstruct(f"SAFE. before aggregate or window function {name}")
        return f"TRY({self.sql(expression.this)})"

    def window_sql(self, expression: exp.Window) -> str:
        call = expression.this
        if not isinstance(call, exp.Anonymous):
            raise NotImplementedConstruct(f"OVER after {type(call).key.upper()}")
        name = call.name.upper()
        if name in _AGGREGATES:
            return self._aggregate(name, call.expressions, expression)
        if name in {*_SCALAR, *_VARIADIC, *_SPECIAL}:
            raise InvalidQuery(f"Function {name} does not support an OVER clause")
        if name not in _WINDOW:
            raise NotImplementedConstruct(f"function {name}")
        if len(call.expressions) not in _WINDOW[name]:
            raise invalid_call(name, len(call.expressions), " or ".join(map(str, _WINDOW[name])))
        if name != "ROW_NUMBER" and expression.args.get("order") is None:
            raise InvalidQuery(f"Window ORDER BY is required for analytic function {name.lower()}")
        return f"{name.lower()}({self.expressions(call)}){self._over(expression)}"

    def _over(self, window: exp.Window | None) -> str:
        if window is None:
            return ""
        clauses = (self.partition_by_sql(window), self.sql(window, "order").strip(), self.sql(window, "spec"))
        return f" OVER ({' '.join(filter(None, clauses))})"

    def windowspec_sql(self, expression: exp.WindowSpec) -> str:
        kind = str(expression.args.get("kind")).upper()
        has_distance = any(isinstance(expression.args.get(side), exp.Expr) for side in ("start", "end"))
        if kind not in _FRAME_KINDS or (
            kind == "RANGE" and has_distance
        ):  # the sort keys of such a frame would be three
            raise NotImplementedConstruct(f"window frame {kind}{' with a distance' if has_distance else ''}")
        return super().windowspec_sql(expression)

    def _aggregate(self, name: str, items: list[exp.Expr], window: exp.Window | None) -> str:
        """The call of an aggregate function, with its OVER clause if it has one."""
        arguments, clauses = _arguments_and_clauses(items)
        counts = (1, 2) if name == "STRING_AGG" else (1,)
        if len(arguments) not in counts:
            raise invalid_call(name, len(arguments), " or ".join(map(str, counts)))
        _refuse_clauses(name, arguments, clauses, window)
        over = self._over(window)
        if isinstance(arguments[0], exp.Star):
            return f"count(*){over}"
        first, *others = (self.sql(argument) for argument in arguments)
        if name == "MIN":
            return _minimum(first, over)
        if name == "AVG":
            first = f"own_float('AVG', {first}, CAST({first} AS DOUBLE))"
        if name == "STRING_AGG" and not others:
            others = ["','"]
        order = f" ORDER BY {self.expressions(clauses[exp.Order])}" if exp.Order in clauses else ""
        not_null = f" FILTER (WHERE {first} IS NOT NULL)"
        null_filter = not_null if exp.IgnoreNulls in clauses else ""
        listed = ("DISTINCT " if exp.Distinct in clauses else "") + first
        if exp.Limit in clauses:
            limit = integer_literal(clauses[exp.Limit].args["expression"])
            if name == "ARRAY_AGG":
                return f"(list({listed}{order}){null_filter})[1:{limit}]"
            return f"array_to_string((list({listed}{order}){not_null})[1:{limit}], {others[0]})"
        called = f"{_AGGREGATES[name]}({', '.join((listed, *others))}{order}){null_filter}{over}"
        return f"CAST(COALESCE({called}, 0) AS BIGINT)" if name == "COUNTIF" else called

    def structure(self, name: str, arguments: list[exp.Expr]) -> str:
        return self.struct(arguments)

    def regexp_extract(self, name: str, arguments: list[exp.Expr]) -> str:
        if len(arguments) < 2:
            raise invalid_call(name, len(arguments), "2 to 4")
        if len(arguments) > 2:
            raise NotImplementedConstruct("REGEXP_EXTRACT with a position")
        pattern = self.constant_text(arguments[1], "REGEXP_EXTRACT pattern")
        if pattern is None:
            return "NULL"
        try:
            groups = re.compile(pattern).groups
        except re.error as error:
            raise NotImplementedConstruct(f"REGEXP_EXTRACT pattern [{pattern}] ({error})") from error
        if groups > 1:
            raise InvalidQuery(
                "Regular expressions passed into extraction functions must not have more than 1 capturing group"
            )
        text, expression = self.sql(arguments[0]), string_literal(pattern)
        # Unlike DuckDB's regexp_extract, this function gives NULL for a group that took no part in the match.
        found = f"regexp_extract_all({text}, {expression}, {groups})[1]"
        return f"CASE WHEN regexp_matches({text}, {expression}) THEN {found} END"

    def format_text(self, name: str, arguments: list[exp.Expr]) -> str:
        """Supports %s, %d and %t without flags, %e with a precision, and %%."""
        if not arguments:
            raise invalid_call(name, 0, "1 or more")
        template = self.constant_text(arguments[0], "FORMAT text")
        if template is None:
            return "NULL"
        values = [self.sql(argument) for argument in arguments[1:]]
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
            element = f"{string_literal(item.group())}, " if is_scientific else ""
            pieces.append(f"own_format_{item['kind']}({element}{values[used]})")
            used += 1
        if used != len(values):
            raise InvalidQuery(
                f"Too many arguments to FORMAT for pattern [{template}]: [{len(values)}], expected [{used}]"
            )
        pieces.append(string_literal(template[position:]))
        return f"({' || '.join(pieces)})"


def _scalar(name: str, arguments: list[str]) -> str:
    if name in _SCALAR:
        if len(arguments) not in _SCALAR[name]:
            raise invalid_call(name, len(arguments), " or ".join(map(str, sorted(_SCALAR[name]))))
        return f"bq_{name.lower()}({', '.join(arguments)})"
    if name not in _VARIADIC:
        raise NotImplementedConstruct(f"function {name}")
    if not arguments:
        raise invalid_call(name, 0, "1 or more")
    if name in ("CONCAT", "ARRAY_CONCAT"):
        return f"({' || '.join(arguments)})"
    called = f"{name.lower()}({', '.join(arguments)})"
    if name == "COALESCE":
        return called
    any_null = " OR ".join(f"{argument} IS NULL" for argument in arguments)  # GREATEST of DuckDB leaves NULL out
    return f"(CASE WHEN {any_null} THEN NULL ELSE {called} END)"


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


def _refuse_clauses(name: str, arguments: list[exp.Expr], clauses: Clauses, window: exp.Window | None) -> None:
    """Raises InvalidQuery for a clause inside the parentheses that the function cannot have, alone or with OVER."""
    is_ordered_or_limited = exp.Order in clauses or exp.Limit in clauses
    if window is not None and is_ordered_or_limited:
        raise InvalidQuery(f"Analytic function {name.lower()} does not support ORDER BY or LIMIT in its arguments")
    if window is not None and exp.Distinct in clauses and window.args.get("order") is not None:
        raise InvalidQuery("Window ORDER BY is not allowed if DISTINCT is specified")
    if is_ordered_or_limited and name not in ("ARRAY_AGG", "STRING_AGG"):
        raise InvalidQuery(f"Aggregate function {name} does not support ORDER BY or LIMIT in its arguments")
    if {exp.IgnoreNulls, exp.RespectNulls} & clauses.keys() and name != "ARRAY_AGG":
        raise InvalidQuery(f"IGNORE NULLS and RESPECT NULLS are not allowed for aggregate function {name.lower()}")
    if isinstance(arguments[0], exp.Star) and (name != "COUNT" or exp.Distinct in clauses):
        raise InvalidQuery(f"Argument * can only be used in COUNT(*), not {name}(*), and not with DISTINCT")
    # BigQuery's documentation does not say whether LIMIT 0 gives an empty array or NULL: it is refused.
    if exp.Limit in clauses and (integer_literal(clauses[exp.Limit].args["expression"]) or 0) < 1:
        raise NotImplementedConstruct("LIMIT of an aggregate that is not one positive integer literal")


def _minimum(value: str, over: str) -> str:
    """NaN if there is any, as in BigQuery. For DuckDB, NaN is the greatest number."""
    any_nan = f"bool_or(own_is_nan({value})){over}"
    return f"CASE WHEN {any_nan} THEN max({value}){over} ELSE min({value}){over} END"


_SPECIAL: Mapping[str, WriteCall] = {
    **DATE_FUNCTIONS,
    "FORMAT": FunctionGenerator.format_text,
    "REGEXP_EXTRACT": FunctionGenerator.regexp_extract,
    "STRUCT": FunctionGenerator.structure,
}
_OWN_SYNTAX = ("IF", "CAST", "SAFE_CAST", "EXTRACT", "ARRAY")
# BigQuery names of all supported functions.
SUPPORTED_FUNCTIONS = tuple(sorted({*_SCALAR, *_VARIADIC, *_AGGREGATES, *_WINDOW, *_SPECIAL, *_OWN_SYNTAX}))
