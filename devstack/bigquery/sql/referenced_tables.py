"""Finds the tables that a query reads. Names of WITH clauses are not tables."""

from __future__ import annotations

from sqlglot import exp

from devstack.bigquery.sql.statements import TableName
from devstack.bigquery.sql.table_names import table_name_of
from devstack.bigquery.sql.writer.from_clause import system_time


def referenced_tables(tree: exp.Expr) -> list[tuple[TableName, exp.Expression | None]]:
    """Each reference to a table with its FOR SYSTEM_TIME expression (None without one), in the order of the text."""
    references: list[tuple[TableName, exp.Expression | None]] = []
    _walk(tree, frozenset(), references)
    return references


def _walk(node: exp.Expr, cte_names: frozenset[str], references: list[tuple[TableName, exp.Expression | None]]) -> None:
    if isinstance(node, exp.Table) and (len(node.parts) > 1 or node.name.lower() not in cte_names):
        version = node.args.get("version")
        references.append((table_name_of(node), None if version is None else system_time(version)))
    clause = node.args.get("with_")
    if isinstance(clause, exp.With):
        for table in clause.expressions:
            _walk(table.this, cte_names, references)
            cte_names |= {table.alias.lower()}
    for child in node.iter_expressions():
        if child is not clause:
            _walk(child, cte_names, references)
