"""The tables that a query reads, as written; names of WITH clauses are not tables."""

from __future__ import annotations

from sqlglot import exp

from devstack.bigquery.sql.names import table_name_of
from devstack.bigquery.sql.statements import TableName
from devstack.bigquery.sql.writer.sources import system_time


def referenced_tables(tree: exp.Expr) -> list[tuple[TableName, exp.Expression | None]]:
    """Each table with its FOR SYSTEM_TIME expression, in the order of the text, once for each mention."""
    found: list[tuple[TableName, exp.Expression | None]] = []
    _walk(tree, frozenset(), found)
    return found


def _walk(node: exp.Expr, visible: frozenset[str], found: list[tuple[TableName, exp.Expression | None]]) -> None:
    if isinstance(node, exp.Table) and (len(node.parts) > 1 or node.name.lower() not in visible):
        version = node.args.get("version")
        found.append((table_name_of(node), None if version is None else system_time(version)))
    clause = node.args.get("with_")
    if isinstance(clause, exp.With):
        for table in clause.expressions:
            _walk(table.this, visible, found)
            visible |= {table.alias.lower()}
    for child in node.iter_expressions():
        if child is not clause:
            _walk(child, visible, found)
