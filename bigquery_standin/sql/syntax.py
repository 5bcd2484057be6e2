"""Defines which syntax the stand-in carries out: SQLGlot's BigQuery dialect, changed, and a list of its nodes.

SQLGlot parses known calls into nodes of its own, and changes their meaning for other dialects. Here a call without a
syntax of its own stays a name with arguments (`exp.Anonymous`), so that `function_generator.py` decides which functions
are supported, and how. SQLGlot reads more than BigQuery and DuckDB have in common. What is surely the same in both, or
is written so that it is, is listed here with its arguments; a construct that is missing, such as SAMPLE, PIVOT or a
hint, is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sqlglot import exp
from sqlglot.dialects.bigquery import BigQuery
from sqlglot.parsers.bigquery import BigQueryParser
from sqlglot.tokenizer_core import Token, TokenType

from bigquery_standin.bigquery_errors import NotImplementedConstruct

_BINARY = (
    *(exp.And, exp.Or, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.DPipe, exp.BitwiseAnd, exp.Dot),
)
_UNARY = (
    *(exp.Not, exp.Neg, exp.Paren, exp.Exists, exp.Identifier, exp.Var, exp.RawString, exp.Boolean),
    *(exp.Parameter, exp.From, exp.Where, exp.Having, exp.Qualify, exp.SafeFunc, exp.IgnoreNulls),
    exp.RespectNulls,
)
_LISTS = (exp.With, exp.Group, exp.Distinct, exp.Tuple, exp.Array, exp.Values)

# By class of node: its supported arguments, as SQLGlot names them.
_SUPPORTED: Mapping[type[exp.Expr], str] = {
    exp.Select: "with_ expressions distinct from_ joins where group having qualify order limit offset",
    exp.Union: "with_ this expression order limit offset",
    exp.CTE: "this alias",
    exp.Subquery: "this alias with_",
    exp.Join: "this side kind on",
    exp.Table: "this db catalog alias version",
    exp.TableAlias: "this columns",
    exp.Version: "this kind expression",
    exp.Unnest: "expressions alias offset",
    exp.Order: "this expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Limit: "this expression",
    exp.Offset: "expression",
    exp.Column: "this table db catalog",
    exp.Star: "except_ replace",
    exp.Alias: "this alias",
    exp.Literal: "this is_string",
    exp.ByteString: "this is_bytes",
    exp.Null: "",
    exp.Bracket: "this expressions offset safe",
    exp.Cast: "this to safe",
    exp.DataType: "this expressions nested",
    exp.ColumnDef: "this kind",
    **dict.fromkeys(_BINARY, "this expression safe typed"),
    **dict.fromkeys(_UNARY, "this"),
    **dict.fromkeys(_LISTS, "expressions"),
    exp.Like: "this expression negate",
    exp.Between: "this low high",
    exp.In: "this expressions query unnest",
    exp.Case: "this ifs default",
    exp.If: "this true false",
    exp.Interval: "this unit",
    **dict.fromkeys((exp.CurrentDate, exp.CurrentTimestamp), ""),
    exp.Anonymous: "this expressions",
    exp.Window: "this partition_by order",
}
# Arguments that only record how the text is written.
_NOTATION = {"quoted", "value_constructor", "struct_name_inheritance", "comments", "over", "overlaps"}


def refuse_unsupported(tree: exp.Expr) -> None:
    """Raises NotImplementedConstruct for a node or an argument in the tree that the stand-in does not carry out."""
    for node in tree.walk():
        if type(node) not in _SUPPORTED:
            raise NotImplementedConstruct(construct_name(node))
        refuse_arguments(node, _SUPPORTED[type(node)])
        if isinstance(node, exp.TableAlias) and node.columns and not isinstance(node.parent, exp.Unnest):
            raise NotImplementedConstruct("column names in an alias of a table")


def refuse_arguments(node: exp.Expr, supported: str) -> None:
    """Raises NotImplementedConstruct for an argument that is not in `supported`, SQLGlot's names of arguments."""
    for name, value in node.args.items():
        if name not in (*supported.split(), *_NOTATION) and value not in (None, False, []):
            raise NotImplementedConstruct(f"{construct_name(node)} with {name.rstrip('_')}")


def construct_name(node: exp.Expr) -> str:
    """The name of a node in an error message."""
    if isinstance(node, exp.Anonymous):
        return f"function {node.name.upper()}"
    return type(node).key.upper()


def integer_literal(node: exp.Expr | None) -> int | None:
    """The value of a plain or negated integer literal; None for any other node."""
    if isinstance(node, exp.Neg):
        inner = integer_literal(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    return None


def struct_field_name(item: exp.Expr) -> str:
    """The field name that BigQuery infers: an alias, or the last part of a column's path; "" for other expressions."""
    return item.alias if isinstance(item, exp.Alias) else item.name if isinstance(item, exp.Column | exp.Dot) else ""


def first_select(query: exp.Expr) -> exp.Select | None:
    """The SELECT that names a query's columns."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query if isinstance(query, exp.Select) else None


def names_a_cte(table: exp.Table) -> bool:
    """Whether the name is that of a table in a WITH clause around it. Inside the clause only earlier ones are known."""
    if len(table.parts) > 1:
        return False
    child: exp.Expr = table
    while (parent := child.parent) is not None:
        if isinstance(parent, exp.With):
            visible = parent.expressions[: child.index or 0]
        else:
            clause = parent.args.get("with_")
            visible = clause.expressions if clause is not None and clause is not child else []
        if any(found.alias.lower() == table.name.lower() for found in visible):
            return True
        child = parent
    return False


_SPECIAL_SYNTAX = ("ARRAY", "CAST", "SAFE_CAST", "EXTRACT")
_PROPERTIES = ("OPTIONS", "PARTITION BY", "CLUSTER BY")


class _Tokenizer(BigQuery.Tokenizer):
    # With SQLGlot's own set, everything after ELSEIF, CALL, EXPLAIN, … would be one opaque string.
    COMMANDS: ClassVar = set()


class ExpressionParser(BigQueryParser):
    FUNCTIONS: ClassVar = {}
    FUNCTION_PARSERS: ClassVar = {name: BigQueryParser.FUNCTION_PARSERS[name] for name in _SPECIAL_SYNTAX}
    PROPERTY_PARSERS: ClassVar = {name: BigQueryParser.PROPERTY_PARSERS[name] for name in _PROPERTIES}
    PLACEHOLDER_PARSERS: ClassVar = {TokenType.PARAMETER: BigQueryParser.PLACEHOLDER_PARSERS[TokenType.PARAMETER]}

    def _parse_as_command(self, start: Token) -> exp.Command:
        raise NotImplementedConstruct(f"this form of {start.text.upper()}")

    def _parse_constraint(self) -> exp.Expr | None:
        """A constraint of a table, without a name: in BigQuery's DDL, CONSTRAINT can be the name of a column."""
        return self._parse_unnamed_constraint(constraints=self.SCHEMA_UNNAMED_CONSTRAINTS)


class StandInBigQuery(BigQuery):
    """The SQLGlot dialect in which the stand-in parses queries and expressions."""

    Tokenizer = _Tokenizer
    Parser = ExpressionParser


STAND_IN = StandInBigQuery()
