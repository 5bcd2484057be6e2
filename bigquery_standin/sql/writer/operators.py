"""Writes operators and conditions."""

from __future__ import annotations

from sqlglot import exp

from bigquery_standin.bigquery_errors import NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.runtime_errors import unsupported_when
from bigquery_standin.sql.writer.date_functions import interval_sql
from bigquery_standin.sql.writer.literals import int64_literal, parameter_value
from bigquery_standin.sql.writer.node_writer import PARAMETERS, Writer, handles, integer_literal

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.DPipe: "||",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_UNARY = {exp.BitwiseNot: "(~{0})", exp.Exists: "EXISTS ({0})", exp.Not: "(NOT {0})", exp.Paren: "({0})"}
_PATHS = (exp.Column, exp.Dot, exp.Bracket)  # columns, their fields and elements
_INT32_MAX = 2**31 - 1


@handles(*_SYMBOLS, supported_args="this expression safe")
def _binary(writer: Writer, node: exp.Binary) -> str:
    if isinstance(node, _COMPARISONS):
        refuse_struct_comparison([node.this, node.expression])
        right = _compared(writer, node.this, node.expression)
    else:
        right = writer.write(node.expression)
    return f"({writer.write(node.this)} {_SYMBOLS[type(node)]} {right})"


def refuse_struct_comparison(operands: list[exp.Expr]) -> None:
    """Refuses comparisons of a written STRUCT(…), and of a tuple with anything but a tuple.

    BigQuery compares fields by position. For DuckDB, STRUCTs with different field names are unequal. Two columns with
    such STRUCTs are refused at run time, by the SQL of `_compared`.
    """
    tuples = [isinstance(operand, exp.Tuple) for operand in operands]
    structs = [isinstance(operand, exp.Anonymous) and operand.name.upper() == "STRUCT" for operand in operands]
    if any(structs) or (any(tuples) and not all(tuples)):
        raise NotImplementedConstruct("comparison of STRUCT values other than (a, b) with (c, d)")


@handles(exp.Mul, supported_args="this expression safe")
def _multiply(writer: Writer, node: exp.Mul) -> str:
    factors = (node.this, node.expression)
    template = "({} * {})" if any(integer_literal(f) is not None for f in factors) else "own_multiply({}, {})"
    return template.format(*map(writer.write, factors))


def _compared(writer: Writer, left: exp.Expr, right: exp.Expr) -> str:
    """SQL of the right operand of a comparison. It fails at run time for a STRUCT column of another type than `left`.

    The condition is around the operand and not the comparison, so that DuckDB still recognizes an equality join.
    """
    if not (isinstance(left, _PATHS) and isinstance(right, _PATHS)):
        return writer.write(right)
    left_type, right_type = f"typeof({writer.write(left)})", f"typeof({writer.write(right)})"
    differs = f"{left_type} LIKE 'STRUCT%' AND {left_type} <> {right_type}"
    return f"({unsupported_when(differs, 'comparison of STRUCTs of different types', writer.write(right))})"


@handles(exp.Add, exp.Sub, supported_args="this expression")
def _sum(writer: Writer, node: exp.Binary) -> str:
    symbol = "+" if isinstance(node, exp.Add) else "-"
    if isinstance(node.expression, exp.Interval):
        return f"({writer.write(node.this)} {symbol} {interval_sql(writer, node.expression)})"
    left, right = _small_integer(writer, node.this), _small_integer(writer, node.expression)
    if left is not None and right is not None:
        return f"({int64_literal(left)} {symbol} {int64_literal(right)})"
    # Only 32-bit integers can be added to a DATE in DuckDB, so a small literal or parameter beside another expression,
    # which may be a DATE, has no cast to BIGINT.
    written_left = str(left) if left is not None else writer.write(node.this)
    written_right = str(right) if right is not None else writer.write(node.expression)
    return f"({written_left} {symbol} {written_right})"


def _small_integer(writer: Writer, node: exp.Expr) -> int | None:
    """The value of a literal or query parameter that fits 32 bits and is not negative; None for other expressions."""
    number = integer_literal(node)
    # With `check_only` parameters have no values; a Parameter within a Parameter is a system variable.
    if isinstance(node, PARAMETERS) and not writer.check_only and not isinstance(node.this, exp.Parameter):
        number = _integer_value(parameter_value(writer, node.name))
    return number if number is not None and 0 <= number <= _INT32_MAX else None


def _integer_value(value: QueryValue) -> int | None:
    return value.value if isinstance(value.value, int) and value.field.type == "INT64" else None


@handles(exp.Div, supported_args="this expression typed safe")
def _divide(writer: Writer, node: exp.Div) -> str:
    return f"own_divide({writer.write(node.this)}, {writer.write(node.expression)})"


@handles(exp.BitwiseXor, supported_args="this expression")
def _exclusive_or(writer: Writer, node: exp.BitwiseXor) -> str:
    return f"xor({writer.write(node.this)}, {writer.write(node.expression)})"


@handles(*_UNARY, supported_args="this")
def _unary(writer: Writer, node: exp.Unary) -> str:
    return _UNARY[type(node)].replace("{0}", writer.write(node.this))


@handles(exp.Neg, supported_args="this")
def _negate(writer: Writer, node: exp.Neg) -> str:
    literal = integer_literal(node)
    return int64_literal(literal) if literal is not None else f"(- {writer.write(node.this)})"


def _negation(node: exp.Expr) -> str:
    return "NOT " if node.args.get("negate") else ""


@handles(exp.Is, supported_args="this expression negate")
def _is(writer: Writer, node: exp.Is) -> str:
    return f"({writer.write(node.this)} IS {_negation(node)}{writer.write(node.expression)})"


@handles(exp.Like, supported_args="this expression negate")
def _like(writer: Writer, node: exp.Like) -> str:
    if isinstance(node.expression, exp.Any | exp.All | exp.Tuple):
        raise NotImplementedConstruct("quantified LIKE")
    return f"({writer.write(node.this)} {_negation(node)}LIKE {writer.write(node.expression)} ESCAPE '\\')"


@handles(exp.Between, supported_args="this low high negate")
def _between(writer: Writer, node: exp.Between) -> str:
    low, high = writer.write(node.args["low"]), writer.write(node.args["high"])
    return f"({writer.write(node.this)} {_negation(node)}BETWEEN {low} AND {high})"


@handles(exp.In, supported_args="this expressions query unnest negate")
def _in(writer: Writer, node: exp.In) -> str:
    refuse_struct_comparison([node.this, *node.expressions])
    if isinstance(node.this, exp.Tuple) and not node.expressions:
        raise NotImplementedConstruct("(a, b) IN a query or UNNEST")
    if unnest := node.args.get("unnest"):
        among = f"SELECT UNNEST({writer.write(unnest.expressions[0])})"
    elif query := node.args.get("query"):
        inner = query.this if isinstance(query, exp.Subquery) else query
        among = writer.write(inner)
    else:
        among = ", ".join(_compared(writer, node.this, item) for item in node.expressions)
    return f"({writer.write(node.this)} {_negation(node)}IN ({among}))"


@handles(exp.Case, supported_args="this ifs default")
def _case(writer: Writer, node: exp.Case) -> str:
    subject = f" {writer.write(node.this)}" if node.this else ""
    branches = (f"WHEN {writer.write(b.this)} THEN {writer.write(b.args['true'])}" for b in node.args["ifs"])
    default = node.args.get("default")
    otherwise = f" ELSE {writer.write(default)}" if default else ""
    return f"CASE{subject} {' '.join(branches)}{otherwise} END"


@handles(exp.If, supported_args="this true false")
def _if(writer: Writer, node: exp.If) -> str:
    false = node.args.get("false")
    if false is None:
        raise NotImplementedConstruct("IF with two arguments")
    condition, true = writer.write(node.this), writer.write(node.args["true"])
    return f"CASE WHEN {condition} THEN {true} ELSE {writer.write(false)} END"
