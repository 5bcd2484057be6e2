"""Checks the statements for which SQLGlot has nodes: their arguments, and what in them is not carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.ddl_options import check_options
from bigquery_standin.sql.statements import (
    NOT_MATCHED_BY_TARGET,
    Mutation,
    Query,
    alias_of,
    clause_kind,
    clauses_of,
    clustering_of,
    declared_columns,
    options_of,
    partitioning_of,
    target_of,
    where_of,
)
from bigquery_standin.sql.syntax import construct_name, refuse_arguments, refuse_unsupported
from bigquery_standin.sql.transpile import check
from bigquery_standin.sql.type_parser import field_of

# By class of node: its supported arguments.
_SUPPORTED: Mapping[type[exp.Expr], str] = {
    exp.Alter: "this kind actions",
    exp.Drop: "exists tables kind",
    exp.Insert: "this expression",
    exp.Update: "this expressions where",
    exp.Delete: "this where",
    exp.Merge: "this using on whens",
    exp.When: "matched source condition then",
    exp.TruncateTable: "expressions",
}


def checked_statement(tree: exp.Expr | None) -> exp.Expr:
    """The tree of a statement. Raises InvalidQuery if it is wrong, NotImplementedConstruct if it is not supported."""
    if isinstance(tree, Query) and (not isinstance(tree, exp.Subquery) or isinstance(tree.this, exp.Query)):
        check(tree)
        return tree
    if tree is None or type(tree) not in _CHECKS:
        raise NotImplementedConstruct("this statement" if tree is None else f"{construct_name(tree)} statement")
    if isinstance(tree, exp.Delete) and not tree.this:  # DELETE without FROM
        (target,) = tree.args["tables"]
        tree.set("this", target)
        tree.set("tables", None)
    for node in tree.find_all(*_SUPPORTED):
        if node.parent is None or isinstance(node, exp.When):
            refuse_arguments(node, _SUPPORTED[type(node)])
    _CHECKS[type(tree)](tree)
    if isinstance(tree, Mutation):
        refuse_unsupported(tree.this)
        refuse_arguments(tree.this, "this db catalog alias")
    target_of(tree)
    for update in tree.find_all(exp.Update):
        _check_assignments(update, alias_of(tree))
    return tree


def _check_create(tree: exp.Create) -> None:
    if tree.kind not in ("TABLE", "VIEW"):
        raise NotImplementedConstruct(f"CREATE {tree.kind}")
    refuse_arguments(tree, "this kind replace exists properties expression")
    if tree.args.get("replace") and tree.args.get("exists"):
        raise InvalidQuery(f"CREATE {tree.kind} cannot have both OR REPLACE and IF NOT EXISTS")
    has_columns, query = isinstance(tree.this, exp.Schema), tree.expression
    if has_columns and query:
        raise NotImplementedConstruct(f"CREATE {tree.kind} with a column list and AS query")
    if not has_columns and not isinstance(query, Query):
        raise InvalidQuery("Syntax error: Expected a column list, AS query or CLONE")
    if query:
        check(query)
    layout = [type(item) for item in tree.find_all(exp.PartitionedByProperty, exp.ClusterProperty)]
    if len(set(layout)) < len(layout):
        raise InvalidQuery("Syntax error: PARTITION BY or CLUSTER BY is written twice")
    declared_columns(tree)
    partitioning_of(tree)
    clustering_of(tree)
    check_options(options_of(tree), "table")


def _check_alter(tree: exp.Alter) -> None:
    actions = tree.args["actions"]
    action = actions[0]
    if tree.kind != "TABLE" or len(actions) > 1:
        raise NotImplementedConstruct(f"ALTER {tree.kind} with [{len(actions)}] actions")
    if isinstance(action, exp.AlterSet):
        (options,) = action.expressions
        check_options(options.expressions, "table")
    elif isinstance(action, exp.AlterColumn) and action.args.get("dtype") is not None:
        refuse_arguments(action, "this dtype")
        field_of(action.args["dtype"], action.name)
    else:
        raise NotImplementedConstruct(f"ALTER TABLE {action.sql('bigquery')}")


def _check_drop(tree: exp.Drop) -> None:
    if tree.kind != "TABLE" or len(tree.args["tables"]) != 1:
        raise NotImplementedConstruct(f"DROP {tree.kind}")


def _check_insert(tree: exp.Insert) -> None:
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    refuse_arguments(target, "this db catalog")
    source = tree.args.get("expression")
    if not isinstance(source, exp.Query | exp.Values):
        raise InvalidQuery("Syntax error: INSERT needs VALUES or a query")
    check(source)


def _check_change(tree: exp.Update | exp.Delete) -> None:
    if tree.args.get("where") is None:
        raise InvalidQuery(f"{tree.key.upper()} must have a WHERE clause: WHERE TRUE means all rows")
    check(where_of(tree))


def _check_assignments(update: exp.Update, alias: str) -> None:
    for item in update.expressions:
        column = item.this
        owner = [part.name.lower() for part in column.parts[:-1]] if isinstance(column, exp.Column) else None
        if not isinstance(item, exp.EQ) or owner not in ([], [alias.lower()]):
            raise NotImplementedConstruct("SET of a field of a STRUCT or an element of an array")
        check(item.expression)
    names = sorted(item.this.name.lower() for item in update.expressions)
    if not names:
        raise InvalidQuery("Syntax error: SET without a column")
    for name, following in pairwise(names):
        if name == following:
            raise InvalidQuery(f"Update item {name} overlaps with another one: set each column once")


def _check_merge(tree: exp.Merge) -> None:
    if not isinstance(tree.args["using"], exp.Table | exp.Subquery):
        raise InvalidQuery("Syntax error: the source of MERGE is one table or subquery")
    check(exp.select("*").from_(tree.args["using"]))
    check(tree.args["on"])
    for when in clauses_of(tree):
        kind, condition, then = clause_kind(when), when.args.get("condition"), when.args["then"]
        if condition is not None:
            check(condition)
        is_insert, is_delete = isinstance(then, exp.Insert), isinstance(then, exp.Var) and then.name.upper() == "DELETE"
        if is_insert != (kind == NOT_MATCHED_BY_TARGET) or not (is_insert or is_delete or isinstance(then, exp.Update)):
            raise InvalidQuery(f"Syntax error: Unexpected {then.sql('bigquery')} after WHEN {kind}")
        refuse_arguments(then, "this expression expressions")
        if is_insert:
            _check_merge_insert(then)


def _check_merge_insert(insert: exp.Insert) -> None:
    if isinstance(insert.this, exp.Var) or not insert.expression:
        raise NotImplementedConstruct("INSERT in a MERGE without a list of columns")
    for value in insert.expression.expressions:
        check(value)


_CHECKS: Mapping[type, Callable[[Any], object]] = {
    exp.Create: _check_create,
    exp.Alter: _check_alter,
    exp.Drop: _check_drop,
    exp.Insert: _check_insert,
    exp.Update: _check_change,
    exp.Delete: _check_change,
    exp.Merge: _check_merge,
    exp.TruncateTable: target_of,
}
