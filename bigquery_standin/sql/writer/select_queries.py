"""Writes SELECT, WITH and set operations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.sql.writer.columns_and_structs import struct_field_name
from bigquery_standin.sql.writer.literals import parameter_value
from bigquery_standin.sql.writer.node_writer import (
    PARAMETERS,
    Writer,
    handles,
    integer_literal,
    refuse_other_args,
)
from bigquery_standin.sql.writer.ordering import alias_number, has_alias, order_by_sql, resolve_aliases

_SELECT_ARGS = "with_ expressions distinct from_ joins where group having qualify order limit offset"
_CLAUSES_THAT_NEED_FROM = {
    "where": "a WHERE",
    "group": "a GROUP BY",
    "having": "a HAVING",
    "order": "an ORDER BY",
}
_SET_ARGS = "with_ this expression distinct order limit offset side kind"


@contextmanager
def _with_clause(writer: Writer, node: exp.Query) -> Iterator[str]:
    """Yields the SQL of WITH. Its names are visible inside the block."""
    clause = node.args.get("with_")
    names: set[str] = set()
    writer.visible_ctes.append(names)
    try:
        yield f"WITH {', '.join(_common_tables(writer, clause, names))} " if clause is not None else ""
    finally:
        writer.visible_ctes.pop()


def _common_tables(writer: Writer, clause: exp.With, names: set[str]) -> Iterator[str]:
    refuse_other_args(clause, ("expressions",))
    for table in clause.expressions:
        refuse_other_args(table, ("this", "alias"))
        if table.args["alias"].args.get("columns"):
            raise NotImplementedConstruct("column names of a WITH table")
        if table.alias.lower() in names:
            raise InvalidQuery(f"Duplicate alias {table.alias} for WITH subquery")
        text = f"{quote_identifier(table.alias)} AS ({writer.write(table.this)})"
        names.add(table.alias.lower())
        yield text


@handles(exp.Select, supported_args=_SELECT_ARGS)
def _select(writer: Writer, node: exp.Select) -> str:
    with _with_clause(writer, node) as common_tables:
        sources = writer.write(node.args["from_"]) if node.args.get("from_") else ""
        sources += "".join(writer.write_all(node.args.get("joins") or []))
        for part, name in _CLAUSES_THAT_NEED_FROM.items():
            if not sources and node.args.get(part):
                raise InvalidQuery(f"Query without FROM clause cannot have {name} clause")
        projections = node.expressions
        text = f"{common_tables}SELECT {_distinct(node)}{', '.join(writer.write_all(projections))}{sources}"
        if where := node.args.get("where"):
            # BigQuery knows no aliases in WHERE. DuckDB does, but not in ON, so the condition is put there.
            keyword = "SEMI JOIN (SELECT 1) ON" if has_alias(where.this, projections) else "WHERE"
            text += f" {keyword} {writer.write(where.this)}"
        if group := node.args.get("group"):
            refuse_other_args(group, ("expressions",))
            text += f" GROUP BY {', '.join(_group_key(writer, key, projections) for key in group.expressions)}"
        if having := node.args.get("having"):
            text += f" HAVING {writer.write(having.this)}"
        if qualify := node.args.get("qualify"):
            text += f" QUALIFY {writer.write(resolve_aliases(qualify.this, projections))}"
        return text + order_by_sql(writer, node.args.get("order"), projections) + _limit(writer, node)


def _distinct(node: exp.Select) -> str:
    distinct = node.args.get("distinct")
    if distinct is not None:
        refuse_other_args(distinct, ())
    return "DISTINCT " if distinct is not None else ""


@handles(exp.Values, supported_args="expressions")
def _values(writer: Writer, node: exp.Values) -> str:
    """The rows of an INSERT."""
    rows_sql = (f"({', '.join(writer.write_all(row.expressions))})" for row in node.expressions)
    return f"VALUES {', '.join(rows_sql)}"


@handles(exp.Alias, supported_args="this alias")
def _alias(writer: Writer, node: exp.Alias) -> str:
    if not isinstance(node.parent, exp.Select):
        raise InvalidQuery(f"Syntax error: Unexpected alias {node.alias} outside a SELECT list or STRUCT")
    return f"{writer.write(node.this)} AS {quote_identifier(node.alias)}"


def _group_key(writer: Writer, key: exp.Expr, projections: list[exp.Expr]) -> str:
    """The number of a result column if the key is this number or the column's alias; else the key's SQL."""
    ordinal = integer_literal(key)
    if ordinal is None:
        ordinal = alias_number(key, projections)
    return writer.write(key) if ordinal is None else str(ordinal)


def _limit(writer: Writer, node: exp.Query) -> str:
    limit, offset = node.args.get("limit"), node.args.get("offset")
    if limit is not None and not isinstance(limit, exp.Limit):
        raise InvalidQuery("Syntax error: Unexpected keyword FETCH")
    if limit is None:
        if offset is not None:
            raise InvalidQuery("Syntax error: OFFSET without LIMIT")
        return ""
    for clause in (limit, offset):
        if clause is not None:
            refuse_other_args(clause, ("expression",))
    text = f" LIMIT {_row_count(writer, limit.expression)}"
    return text + (f" OFFSET {_row_count(writer, offset.expression)}" if offset is not None else "")


def _row_count(writer: Writer, node: exp.Expr) -> str:
    literal = integer_literal(node)
    if isinstance(node, PARAMETERS):
        if writer.check_only:
            return "0"
        value = parameter_value(writer, node.name).value
        if not isinstance(value, int) or value < 0:
            raise InvalidQuery(f"LIMIT or OFFSET parameter {node.name} is [{value}], expected [INT64 of 0 or more]")
        return str(value)
    if literal is None or literal < 0:
        found = node.sql(dialect="bigquery")
        raise InvalidQuery(f"LIMIT or OFFSET expects an integer literal or parameter, found [{found}]")
    return str(literal)


@handles(exp.Union, exp.Intersect, exp.Except, supported_args=_SET_ARGS)
def _set_operation(writer: Writer, node: exp.SetOperation) -> str:
    distinct = node.args.get("distinct")
    if not isinstance(node, exp.Union) and not distinct:
        raise InvalidQuery(f"{node.key.upper()} ALL is not supported: use {node.key.upper()} DISTINCT")
    if node.args.get("side") or node.args.get("kind"):
        raise NotImplementedConstruct("set operation with side or CORRESPONDING")
    with _with_clause(writer, node) as common_tables:
        left, right = _operand(writer, node.this), _operand(writer, node.expression)
        text = f"{common_tables}{left} {node.key.upper()}{'' if distinct else ' ALL'} {right}"
        first = first_select(node)
        names = [_column_reference(item) for item in first.expressions] if first is not None else []
        return text + order_by_sql(writer, node.args.get("order"), names) + _limit(writer, node)


def first_select(query: exp.Expr) -> exp.Select | None:
    """The SELECT that names a query's columns."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query if isinstance(query, exp.Select) else None


def _column_reference(item: exp.Expr) -> exp.Expr:
    """A reference by name to a result column of a set operation, for ORDER BY; `*` for a column without a name.

    Such a column can be sorted by its number only: for `*`, ORDER BY keeps the number instead of writing a name for it.
    """
    name = struct_field_name(item)
    return exp.column(name, quoted=True) if name and not item.is_star else exp.Star()


def _operand(writer: Writer, node: exp.Expr) -> str:
    operand_sql = writer.write(node)
    return operand_sql if operand_sql.startswith("(") and isinstance(node, exp.Subquery) else f"({operand_sql})"
