"""Operators and conditions whose meaning is the same in DuckDB, or can be made the same."""

from __future__ import annotations

from sqlglot import exp

from devstack.bigquery.errors import NotImplementedConstruct
from devstack.bigquery.sql.failures import failure, refused_when
from devstack.bigquery.sql.types import QueryValue
from devstack.bigquery.sql.writer.core import Writer, handles, integer_literal
from devstack.bigquery.sql.writer.intervals import interval
from devstack.bigquery.sql.writer.literals import integer, parameter_value

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.Mul: "*",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_INT32_MAX = 2**31 - 1


@handles(*_SYMBOLS, parts="this expression safe")
def _binary(writer: Writer, node: exp.Binary) -> str:
    if isinstance(node, _COMPARISONS):
        refuse_struct_comparison([node.this, node.expression])
    return f"({writer.write(node.this)} {_SYMBOLS[type(node)]} {writer.write(node.expression)})"


def refuse_struct_comparison(sides: list[exp.Expr]) -> None:
    """DuckDB holds structs with other field names for unequal; BigQuery compares them by position."""
    tuples = [isinstance(side, exp.Tuple) for side in sides]
    structs = [isinstance(side, exp.Anonymous) and side.name.upper() == "STRUCT" for side in sides]
    if any(structs) or (any(tuples) and not all(tuples)):
        raise NotImplementedConstruct("comparison of STRUCT values other than (a, b) with (c, d)")


@handles(exp.Add, exp.Sub, parts="this expression")
def _sum(writer: Writer, node: exp.Binary) -> str:
    symbol = "+" if isinstance(node, exp.Add) else "-"
    if isinstance(node.expression, exp.Interval):
        return f"({writer.write(node.this)} {symbol} {interval(writer, node.expression)})"
    left, right = _small_integer(writer, node.this), _small_integer(writer, node.expression)
    if left is not None and right is not None:
        return f"({integer(left)} {symbol} {integer(right)})"
    # DuckDB adds a 32-bit number to a DATE, but not a 64-bit one; to a 64-bit number it adds both.
    written_left = str(left) if left is not None else writer.write(node.this)
    written_right = str(right) if right is not None else writer.write(node.expression)
    return f"({written_left} {symbol} {written_right})"


def _small_integer(writer: Writer, node: exp.Expr) -> int | None:
    found = integer_literal(node)
    if isinstance(node, exp.Parameter) and not writer.checking and not isinstance(node.this, exp.Parameter):
        found = _integer_value(parameter_value(writer, node.name))
    return found if found is not None and 0 <= found <= _INT32_MAX else None


def _integer_value(value: QueryValue) -> int | None:
    return value.value if isinstance(value.value, int) and value.field.type == "INT64" else None


@handles(exp.Div, parts="this expression typed safe")
def _divide(writer: Writer, node: exp.Div) -> str:
    left, right = writer.write(node.this), writer.write(node.expression)
    complaint = failure(f"'division by zero: ' || CAST({left} AS VARCHAR) || ' / ' || CAST({right} AS VARCHAR)")
    return quotient(left, right, complaint)


def quotient(left: str, right: str, at_zero: str) -> str:
    """FLOAT64 division. DuckDB gives infinity for a zero divisor, and FLOAT64 where BigQuery has NUMERIC."""
    plain = f"CASE WHEN {right} = 0 THEN {at_zero} ELSE CAST({left} AS DOUBLE) / CAST({right} AS DOUBLE) END"
    is_numeric = f"typeof({left}) LIKE 'DECIMAL%' OR typeof({right}) LIKE 'DECIMAL%'"
    return refused_when(is_numeric, "division of NUMERIC", plain)


@handles(exp.BitwiseXor, parts="this expression")
def _exclusive_or(writer: Writer, node: exp.BitwiseXor) -> str:
    return f"xor({writer.write(node.this)}, {writer.write(node.expression)})"


@handles(exp.BitwiseNot, parts="this")
def _bitwise_not(writer: Writer, node: exp.BitwiseNot) -> str:
    return f"(~{writer.write(node.this)})"


@handles(exp.Neg, parts="this")
def _negate(writer: Writer, node: exp.Neg) -> str:
    literal = integer_literal(node)
    return integer(literal) if literal is not None else f"(- {writer.write(node.this)})"


@handles(exp.Not, parts="this")
def _not(writer: Writer, node: exp.Not) -> str:
    return f"(NOT {writer.write(node.this)})"


@handles(exp.Paren, parts="this")
def _parenthesis(writer: Writer, node: exp.Paren) -> str:
    return f"({writer.write(node.this)})"


@handles(exp.Is, parts="this expression negate")
def _is(writer: Writer, node: exp.Is) -> str:
    negation = "NOT " if node.args.get("negate") else ""
    return f"({writer.write(node.this)} IS {negation}{writer.write(node.expression)})"


@handles(exp.Like, parts="this expression negate")
def _like(writer: Writer, node: exp.Like) -> str:
    if isinstance(node.expression, exp.Any | exp.All | exp.Tuple):
        raise NotImplementedConstruct("quantified LIKE")
    negation = "NOT " if node.args.get("negate") else ""
    return f"({writer.write(node.this)} {negation}LIKE {writer.write(node.expression)} ESCAPE '\\')"


@handles(exp.Between, parts="this low high negate")
def _between(writer: Writer, node: exp.Between) -> str:
    negation = "NOT " if node.args.get("negate") else ""
    low, high = writer.write(node.args["low"]), writer.write(node.args["high"])
    return f"({writer.write(node.this)} {negation}BETWEEN {low} AND {high})"


@handles(exp.In, parts="this expressions query unnest negate")
def _in(writer: Writer, node: exp.In) -> str:
    negation = "NOT " if node.args.get("negate") else ""
    refuse_struct_comparison([node.this, *node.expressions])
    if isinstance(node.this, exp.Tuple) and not node.expressions:
        raise NotImplementedConstruct("(a, b) IN a query or UNNEST")
    if unnest := node.args.get("unnest"):
        among = f"SELECT UNNEST({writer.write(unnest.expressions[0])})"
    elif query := node.args.get("query"):
        inner = query.this if isinstance(query, exp.Subquery) else query
        among = writer.write(inner)
    else:
        among = ", ".join(writer.write_all(node.expressions))
    return f"({writer.write(node.this)} {negation}IN ({among}))"


@handles(exp.Exists, parts="this")
def _exists(writer: Writer, node: exp.Exists) -> str:
    return f"EXISTS ({writer.write(node.this)})"


@handles(exp.Case, parts="this ifs default")
def _case(writer: Writer, node: exp.Case) -> str:
    subject = f" {writer.write(node.this)}" if node.this else ""
    branches = (f"WHEN {writer.write(b.this)} THEN {writer.write(b.args['true'])}" for b in node.args["ifs"])
    default = node.args.get("default")
    otherwise = f" ELSE {writer.write(default)}" if default else ""
    return f"CASE{subject} {' '.join(branches)}{otherwise} END"


@handles(exp.If, parts="this true false")
def _if(writer: Writer, node: exp.If) -> str:
    false = node.args.get("false")
    if false is None:
        raise NotImplementedConstruct("IF with two arguments")
    condition, true = writer.write(node.this), writer.write(node.args["true"])
    return f"CASE WHEN {condition} THEN {true} ELSE {writer.write(false)} END"
