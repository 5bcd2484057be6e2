"""Finds what the aliases and column numbers in WHERE, GROUP BY, QUALIFY and ORDER BY refer to."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery
from bigquery_standin.sql.syntax import first_select, integer_literal, struct_field_name


def projections_of(clause: exp.Expr | None) -> Sequence[exp.Expr]:
    """The SELECT list of the clause's query; empty for ORDER BY in a window or an aggregate."""
    query = clause.parent if clause is not None else None
    if isinstance(query, exp.Select):
        return query.expressions
    first = first_select(query) if isinstance(query, exp.SetOperation) else None
    return [] if first is None else [_column_reference(item) for item in first.expressions]


def _column_reference(item: exp.Expr) -> exp.Expr:
    """A reference by name to a result column of a set operation, for ORDER BY; `*` for a column without a name.

    Such a column can be sorted by its number only: for `*`, ORDER BY keeps the number instead of writing a name for it.
    """
    name = struct_field_name(item)
    return exp.column(name, quoted=True) if name and not item.is_star else exp.Star()


def resolve_aliases(node: exp.Expr, projections: Sequence[exp.Expr]) -> exp.Expr:
    """The expression with each alias replaced by what it stands for; the same node if there are none.

    Names in subqueries are left as they are.
    """
    named: dict[str, exp.Expr] = {item.alias.lower(): item.this for item in projections if isinstance(item, exp.Alias)}
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        return named.get(node.name.lower(), node)
    if not any(_is_alias(column, named) for column in node.find_all(exp.Column)):
        return node
    resolved = node.copy()
    for column in list(resolved.find_all(exp.Column)):
        if _is_alias(column, named) and column.find_ancestor(exp.Query) is None:
            column.replace(exp.Paren(this=named[column.name.lower()].copy()))
    resolved.parent = node.parent  # so that the writer still finds the query around it
    return resolved


def alias_of(node: exp.Expr, projections: Sequence[exp.Expr]) -> str | None:
    """The alias that `node` refers to, spelled as in the SELECT list; None if it refers to none."""
    aliases = [item.alias for item in projections if isinstance(item, exp.Alias)]
    return next((alias for alias in aliases if _is_alias(node, {alias.lower()})), None)


def has_alias(condition: exp.Expr, projections: Sequence[exp.Expr]) -> bool:
    """Whether a name in the condition is an alias of the SELECT list.

    An alias that only repeats its column's name (`a AS a`) does not count.
    """
    aliases = {
        item.alias.lower()
        for item in projections
        if isinstance(item, exp.Alias) and not (isinstance(item.this, exp.Column) and item.this.sql() == item.alias)
    }
    return any(_is_alias(column, aliases) for column in condition.find_all(exp.Column))


def numbered_projection(node: exp.Expr, projections: Sequence[exp.Expr]) -> exp.Expr | int:
    """The projection that a column number stands for, by its alias if it has one.

    A number is returned as an integer if its projection is a `*` or comes after one, because the columns of `*` are not
    known. Any other expression is returned unchanged; without projections, numbers are too. Raises InvalidQuery for a
    number that no projection has.
    """
    ordinal = integer_literal(node)
    if ordinal is None or not projections:
        return node
    if any(isinstance(item, exp.Star) or item.is_star for item in projections[:ordinal]):
        return ordinal
    if not 1 <= ordinal <= len(projections):
        raise InvalidQuery(f"ORDER BY column number item is out of range. Max value is {len(projections)}")
    item = projections[ordinal - 1]
    return exp.column(item.alias, quoted=True) if isinstance(item, exp.Alias) else item


def alias_number(node: exp.Expr, projections: Sequence[exp.Expr]) -> int | None:
    """The number of the column whose alias this is, from 1; None for another expression, and after a `*`."""
    for number, item in enumerate(projections, start=1):
        if item.is_star:
            return None
        if isinstance(item, exp.Alias) and _is_alias(node, {item.alias.lower()}):
            return number
    return None


def _is_alias(node: exp.Expr, names: Collection[str]) -> bool:
    return isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() in names
