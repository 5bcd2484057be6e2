"""Writes SELECT, WITH and set operations."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.field_types import quote_identifier
from devstack.bigquery.sql.functions import AGGREGATE_NAMES
from devstack.bigquery.sql.writer.columns_and_structs import struct_field_name, struct_sql
from devstack.bigquery.sql.writer.literals import parameter_value
from devstack.bigquery.sql.writer.node_writer import (
    PARAMETERS,
    Writer,
    handles,
    integer_literal,
    refuse_other_args,
)
from devstack.bigquery.sql.writer.ordering import order_by_sql, window_sql
from devstack.bigquery.sql.writer.select_aliases import (
    alias_number,
    has_alias,
    numbered_projection,
    resolve_aliases,
)

_SELECT_ARGS = "with_ kind expressions distinct from_ joins where group having qualify windows order limit offset"
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
        is_struct = _select_kind(node) == "STRUCT"
        text = f"{common_tables}SELECT {_distinct(node)}{_projections(writer, node)}{sources}"
        for part, keyword in (("where", "WHERE"), ("having", "HAVING"), ("qualify", "QUALIFY")):
            if part == "having" and node.args.get("group") is not None:
                text += _group(writer, node.args["group"], node.expressions, is_struct)
            if clause := node.args.get(part):
                condition = resolve_aliases(clause.this, node.expressions) if part == "qualify" else clause.this
                if part == "where" and has_alias(condition, node.expressions):
                    # BigQuery knows no aliases in WHERE. DuckDB does, but not in ON, so the condition is put there.
                    keyword = "SEMI JOIN (SELECT 1) ON"
                text += f" {keyword} {writer.write(condition)}"
            if part == "having" and node.args.get("windows"):
                text += _named_windows(writer, node.args["windows"])
        order = order_by_sql(writer, node.args.get("order"), node.expressions, is_struct=is_struct)
        return text + order + _limit(writer, node)


def _distinct(node: exp.Select) -> str:
    distinct = node.args.get("distinct")
    if distinct is not None:
        refuse_other_args(distinct, ())
    return "DISTINCT " if distinct is not None else ""


def _select_kind(node: exp.Select) -> str:
    """The word after SELECT AS, which is STRUCT or VALUE; "" for a plain SELECT."""
    return str(node.args.get("kind") or "").upper()


def _projections(writer: Writer, node: exp.Select) -> str:
    kind = _select_kind(node)
    if kind == "STRUCT":
        if any(item.is_star for item in node.expressions):
            raise NotImplementedConstruct("SELECT AS STRUCT *")
        return struct_sql(writer, node.expressions)
    if kind == "VALUE" and len(node.expressions) != 1:
        raise InvalidQuery("SELECT AS VALUE query must have exactly one column")
    if kind not in ("", "VALUE"):
        raise NotImplementedConstruct(f"SELECT AS {kind}")
    return ", ".join(writer.write_all(node.expressions))


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


def _group(writer: Writer, group: exp.Group, projections: list[exp.Expr], is_struct: bool) -> str:
    refuse_other_args(group, ("expressions", "all"))
    if group.args.get("all"):
        return _group_by_all(writer, projections)
    return f" GROUP BY {', '.join(_group_key(writer, key, projections, is_struct) for key in group.expressions)}"


def _group_key(writer: Writer, key: exp.Expr, projections: list[exp.Expr], is_struct: bool) -> str:
    """The number of a result column if the key is this number or the column's alias; else the key's SQL.

    For DuckDB the fields of SELECT AS STRUCT (`is_struct`) have no numbers.
    """
    if is_struct:
        field = numbered_projection(key, projections, "GROUP BY")
        return str(field) if isinstance(field, int) else writer.write(resolve_aliases(field, projections))
    ordinal = integer_literal(key)
    if ordinal is None:
        ordinal = alias_number(key, projections)
    return writer.write(key) if ordinal is None else str(ordinal)


def _group_by_all(writer: Writer, projections: list[exp.Expr]) -> str:
    """GROUP BY with the keys that ALL stands for.

    They are written out, because after GROUP BY ALL DuckDB refuses an ORDER BY that repeats a selected expression.
    """
    keys = []
    for item in projections:
        if item.is_star:
            raise NotImplementedConstruct("GROUP BY ALL with *")
        if not any(call.name.upper() in AGGREGATE_NAMES for call in item.find_all(exp.Anonymous)):
            keys.append(writer.write(item.this if isinstance(item, exp.Alias) else item))
    return f" GROUP BY {', '.join(keys)}" if keys else ""


def _named_windows(writer: Writer, windows: list[exp.Window]) -> str:
    named = []
    for window in windows:
        body = window.copy()
        body.set("this", None)
        text = window_sql(writer, body)
        named.append(f"{quote_identifier(window.name)} AS {text if text.startswith('(') else f'({text})'}")
    return f" WINDOW {', '.join(named)}"


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
