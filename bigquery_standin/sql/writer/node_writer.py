"""Writes syntax trees with the handler that is registered for each class of node, and keeps the registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import QueryValue
from bigquery_standin.sql.statements import TableName

ResolveTable = Callable[[TableName, exp.Expression | None], str]
Handler = Callable[["Writer", Any], str]

PARAMETERS = (exp.Parameter, exp.Placeholder)  # @name and ?
# Arguments of SQLGlot's nodes that only record how the text is written, so that no handler has to support them.
_NOTATION_ARGS = {"quoted", "value_constructor", "struct_name_inheritance", "comments", "over", "overlaps"}
_HANDLERS: dict[type[exp.Expr], tuple[Handler, frozenset[str]]] = {}
# Names of nodes and of their arguments in error messages, where SQLGlot's own names would not be understood.
_NAMES: dict[type[exp.Expr], str] = {
    exp.TableSample: "TABLESAMPLE",
    exp.Pivot: "PIVOT",
    exp.Interval: "INTERVAL value outside date arithmetic",
    exp.Command: "statement",
    exp.Lambda: "lambda",
    exp.Kwarg: "named argument =>",
}
_ARG_NAMES = {
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT or UNPIVOT",
    "hint": "hint",
    "rollup": "GROUP BY ROLLUP",
    "cube": "GROUP BY CUBE",
    "grouping_sets": "GROUP BY GROUPING SETS",
    "method": "NATURAL JOIN",
    "recursive": "WITH RECURSIVE",
    "format": "CAST with FORMAT",
    "by_name": "set operation BY NAME",
    "joins": "parenthesized join",
}


@dataclass
class Writer:
    """Writes one tree as DuckDB SQL.

    `resolve_table`: returns the SQL of the relation for a table and its FOR SYSTEM_TIME expression. `check_only`: true
    if the caller wants only the errors, and does not use the SQL.
    """

    resolve_table: ResolveTable
    parameters: Mapping[str, QueryValue]  # by lower-case name; positional ones are named "1", "2", …
    variables: Mapping[str, QueryValue]  # by lower-case name
    now: datetime  # the time of CURRENT_TIMESTAMP
    check_only: bool = False
    shadowing_columns: Collection[str] = ()  # columns that take precedence over variables
    external_tables: Collection[str] = ()  # lower-case names of tables with the column _FILE_NAME
    visible_ctes: list[set[str]] = field(default_factory=list)  # for each query around the node, the names of its WITH
    unnest_count: int = 0  # how many UNNESTs were written so far, to number their relations

    def write(self, node: exp.Expr) -> str:
        """The DuckDB SQL of a node."""
        registered = _HANDLERS.get(type(node))
        if registered is None:
            raise NotImplementedConstruct(construct_name(node))
        handler, supported_args = registered
        refuse_other_args(node, supported_args)
        return handler(self, node)

    def write_all(self, nodes: list[exp.Expr]) -> list[str]:
        return [self.write(node) for node in nodes]

    def is_cte(self, name: str) -> bool:
        return any(name.lower() in names for names in self.visible_ctes)


def refuse_other_args(node: exp.Expr, supported_args: Collection[str]) -> None:
    """Raises NotImplementedConstruct for an argument of the node that its handler does not support."""
    for name, value in node.args.items():
        if name not in supported_args and name not in _NOTATION_ARGS and value not in (None, False, []):
            raise NotImplementedConstruct(_ARG_NAMES.get(name, f"{construct_name(node)} with {name.rstrip('_')}"))


def handles(*node_classes: type[exp.Expr], supported_args: str) -> Callable[[Handler], Handler]:
    """Registers a handler. `supported_args`: which of the nodes' SQLGlot arguments it supports, separated by spaces."""

    def register(handler: Handler) -> Handler:
        for node_class in node_classes:
            _HANDLERS[node_class] = (handler, frozenset(supported_args.split()))
        return handler

    return register


def construct_name(node: exp.Expr) -> str:
    """The name of a node in an error message."""
    if isinstance(node, exp.Anonymous):
        return f"function {node.name.upper()}"
    if isinstance(node, exp.Command):
        return f"{node.name.upper()} statement"
    return _NAMES.get(type(node), type(node).key.upper().replace("_", " "))


def integer_literal(node: exp.Expr | None) -> int | None:
    """The value of a plain or negated integer literal; None for any other node."""
    if isinstance(node, exp.Neg):
        inner = integer_literal(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
        return int(node.name)
    return None


def literal_text(writer: Writer, node: exp.Expr, purpose: str) -> str:
    """The text of a literal or parameter that must be known before the query runs, such as a format.

    With `check_only` it is "" for a parameter, whose value is not known yet. Raises NotImplementedConstruct for any
    other expression. `purpose`: what the text is for, for the error message.
    """
    if (isinstance(node, exp.Literal) and node.is_string) or isinstance(node, exp.RawString):
        return node.name
    if isinstance(node, PARAMETERS) and not writer.check_only:
        value = writer.parameters.get(node.name.lower())
        if value is not None and isinstance(value.value, str):
            return value.value
    if isinstance(node, PARAMETERS) and writer.check_only:
        return ""
    raise NotImplementedConstruct(f"{purpose} that is not a literal")


def invalid_call(name: str, count: int, expected: str) -> InvalidQuery:
    """The error for a call with a wrong number of arguments. `expected`: the possible numbers, such as `1 or 2`."""
    return InvalidQuery(f"No matching signature for function {name}: [{count}] arguments, expected [{expected}]")
