"""Writes calls of the scalar, aggregate and window functions that are listed in `functions.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.functions import AGGREGATES, SCALAR, VARIADIC, WINDOW
from bigquery_standin.sql.writer.node_writer import Writer, handles, integer_literal, invalid_call
from bigquery_standin.sql.writer.ordering import order_by_sql, window_sql

# Gets the writer, the function's upper-case name and its arguments. Returns the DuckDB SQL of the call.
SpecialHandler = Callable[[Writer, str, list[exp.Expr]], str]
SPECIAL_HANDLERS: dict[str, SpecialHandler] = {}


def special_function(*names: str) -> Callable[[SpecialHandler], SpecialHandler]:
    """Registers the handler of functions that need more than a macro in `sql/functions.sql`."""

    def register(handler: SpecialHandler) -> SpecialHandler:
        SPECIAL_HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


@handles(exp.Anonymous, supported_args="this expressions")
def _call(writer: Writer, node: exp.Anonymous) -> str:
    name = node.name.upper()
    if isinstance(node.this, exp.Identifier):
        raise NotImplementedConstruct(f"function `{node.name}` (quoted name)")
    if name in AGGREGATES:
        return _aggregate(writer, name, node.expressions, "")
    if name in WINDOW:
        raise InvalidQuery(f"Analytic function {name.lower()} cannot be called without an OVER clause")
    if name in SPECIAL_HANDLERS:
        return SPECIAL_HANDLERS[name](writer, name, node.expressions)
    if name in SCALAR or name in VARIADIC:
        return _scalar(name, writer.write_all(node.expressions))
    raise NotImplementedConstruct(f"function {name}")


@handles(exp.SafeFunc, supported_args="this")
def _safe(writer: Writer, node: exp.SafeFunc) -> str:
    if node.this.name.upper() in (*AGGREGATES, *WINDOW):
        raise NotImplementedConstruct(f"SAFE. before aggregate or window function {node.this.name.upper()}")
    return f"TRY({writer.write(node.this)})"


@handles(exp.Window, supported_args="this partition_by order spec")
def _window_call(writer: Writer, node: exp.Window) -> str:
    if not isinstance(node.this, exp.Anonymous):
        raise NotImplementedConstruct(f"OVER after {type(node.this).key.upper()}")
    return _window_function(writer, node.this, window_sql(writer, node), node.args.get("order") is not None)


def _window_function(writer: Writer, node: exp.Anonymous, window: str, has_order: bool) -> str:
    """A call with OVER. `window`: the SQL after the word OVER. `has_order`: whether the window has ORDER BY."""
    name = node.name.upper()
    if name in AGGREGATES:
        return _aggregate(writer, name, node.expressions, f" OVER {window}")
    if name not in WINDOW:
        if name in {*SCALAR, *VARIADIC, *SPECIAL_HANDLERS}:
            raise InvalidQuery(f"Function {name} does not support an OVER clause")
        raise NotImplementedConstruct(f"function {name}")
    argument_counts, needs_order = WINDOW[name]
    if len(node.expressions) not in argument_counts:
        raise invalid_call(name, len(node.expressions), " or ".join(map(str, argument_counts)))
    if needs_order and not has_order:
        raise InvalidQuery(f"Window ORDER BY is required for analytic function {name.lower()}")
    return f"{name.lower()}({', '.join(writer.write_all(node.expressions))}) OVER {window}"


def _scalar(name: str, arguments: list[str]) -> str:
    if name in SCALAR:
        if len(arguments) not in SCALAR[name]:
            raise invalid_call(name, len(arguments), " or ".join(map(str, sorted(SCALAR[name]))))
        return f"bq_{name.lower()}({', '.join(arguments)})"
    if not arguments:
        raise invalid_call(name, 0, "1 or more")
    if name in ("CONCAT", "ARRAY_CONCAT"):
        return f"({' || '.join(arguments)})"
    called = f"{name.lower()}({', '.join(arguments)})"
    if name == "COALESCE":
        return called
    any_null = " OR ".join(f"{argument} IS NULL" for argument in arguments)  # GREATEST of DuckDB leaves NULL out
    return f"(CASE WHEN {any_null} THEN NULL ELSE {called} END)"


@dataclass(frozen=True)
class _AggregateCall:
    """The arguments of an aggregate call, and the clauses inside its parentheses."""

    arguments: list[exp.Expr]
    distinct: bool = False
    ignore_nulls: bool = False
    respect_nulls: bool = False
    order: exp.Order | None = None
    limit: int | None = None


def _aggregate_call(items: list[exp.Expr]) -> _AggregateCall:
    """Separates the arguments from the clauses.

    SQLGlot puts DISTINCT around all arguments, and each other clause around the DISTINCT or, without one, around the
    last argument.
    """
    arguments, distinct, ignore_nulls, respect_nulls = list(items), False, False, False
    order: exp.Order | None = None
    limit: int | None = None
    while arguments and isinstance(
        arguments[-1], exp.Limit | exp.Order | exp.IgnoreNulls | exp.RespectNulls | exp.Distinct
    ):
        last = arguments[-1]
        if isinstance(last, exp.Limit):
            limit = integer_literal(last.expression)
            # BigQuery's documentation does not say whether LIMIT 0 gives an empty array or NULL: it is refused.
            if limit is None or limit < 1 or last.args.get("offset"):
                raise NotImplementedConstruct("LIMIT of an aggregate that is not one positive integer literal")
        elif isinstance(last, exp.Order):
            order = last
        elif isinstance(last, exp.IgnoreNulls):
            ignore_nulls = True
        elif isinstance(last, exp.RespectNulls):
            respect_nulls = True
        elif isinstance(last, exp.Distinct):
            distinct = True
            arguments[-1:] = last.expressions
            continue
        arguments[-1:] = [last.this]
    return _AggregateCall(arguments, distinct, ignore_nulls, respect_nulls, order, limit)


def _aggregate(writer: Writer, name: str, items: list[exp.Expr], window: str) -> str:
    """The call of an aggregate function. `window`: the SQL ` OVER …` after it, or ""."""
    aggregate, call = AGGREGATES[name], _aggregate_call(items)
    if len(call.arguments) not in aggregate.argument_counts:
        raise invalid_call(name, len(call.arguments), " or ".join(map(str, aggregate.argument_counts)))
    _refuse_clauses(name, call, window)
    first = call.arguments[0]
    if isinstance(first, exp.Star):
        if name != "COUNT":
            raise InvalidQuery(f"Argument * can only be used in COUNT(*), not {name}(*)")
        return f"count(*){window}"
    arguments = [aggregate.first_argument.replace("{0}", writer.write(first)), *writer.write_all(call.arguments[1:])]
    if name == "STRING_AGG" and len(arguments) == 1:
        arguments.append("','")
    if name == "MIN":
        return _minimum(arguments[0], window)
    distinct = "DISTINCT " if call.distinct else ""
    null_filter = f" FILTER (WHERE {arguments[0]} IS NOT NULL)" if call.ignore_nulls else ""
    order = order_by_sql(writer, call.order)
    if call.limit is not None:
        return _with_limit(name, arguments, distinct + arguments[0] + order, null_filter, call.limit)
    called = f"{aggregate.duckdb_name}({distinct}{', '.join(arguments)}{order}){null_filter}{window}"
    return aggregate.result.replace("{0}", called)


def _refuse_clauses(name: str, call: _AggregateCall, window: str) -> None:
    """Raises InvalidQuery for a clause inside the parentheses that the function cannot have, alone or with OVER.

    `window`: as in `_aggregate`.
    """
    is_ordered_or_limited = call.order is not None or call.limit is not None
    if window and is_ordered_or_limited:
        raise InvalidQuery(f"Analytic function {name.lower()} does not support ORDER BY or LIMIT in its arguments")
    if window and call.distinct and "ORDER BY" in window:
        raise InvalidQuery("Window ORDER BY is not allowed if DISTINCT is specified")
    if is_ordered_or_limited and name not in ("ARRAY_AGG", "STRING_AGG"):
        raise InvalidQuery(f"Aggregate function {name} does not support ORDER BY or LIMIT in its arguments")
    if (call.ignore_nulls or call.respect_nulls) and name != "ARRAY_AGG":
        raise InvalidQuery(f"IGNORE NULLS and RESPECT NULLS are not allowed for aggregate function {name.lower()}")
    if call.distinct and isinstance(call.arguments[0], exp.Star):
        raise InvalidQuery("COUNT(*) cannot be used with DISTINCT")


def _minimum(value: str, window: str) -> str:
    """NaN if there is any, as in BigQuery. For DuckDB, NaN is the greatest number."""
    any_nan = f"bool_or(own_is_nan({value})){window}"
    return f"CASE WHEN {any_nan} THEN max({value}){window} ELSE min({value}){window} END"


def _with_limit(name: str, arguments: list[str], listed: str, null_filter: str, limit: int) -> str:
    """ARRAY_AGG or STRING_AGG with LIMIT. `listed`: the first argument, with DISTINCT and ORDER BY.

    `null_filter`: the FILTER clause of IGNORE NULLS, or "".
    """
    if name == "ARRAY_AGG":
        return f"(list({listed}){null_filter})[1:{limit}]"
    strings = f"(list({listed}) FILTER (WHERE {arguments[0]} IS NOT NULL))[1:{limit}]"
    return f"array_to_string({strings}, {arguments[1]})"
