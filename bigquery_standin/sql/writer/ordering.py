"""Writes windows, and ORDER BY in BigQuery's order: NULL lowest, then NaN, then numbers.

It also resolves aliases of the SELECT list and column numbers. In GROUP BY, QUALIFY and ORDER BY, if a name is both an
alias and a column, BigQuery reads it as the alias, and DuckDB mostly as the column.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.sql.writer.node_writer import Writer, integer_literal, refuse_other_args

_FRAME_KINDS = ("ROWS", "RANGE")


def order_by_sql(writer: Writer, order: exp.Order | None, projections: Sequence[exp.Expr] = ()) -> str:
    """` ORDER BY …`, or "" without one. Column numbers and aliases refer to `projections`, the SELECT list."""
    if order is None:
        return ""
    return f" ORDER BY {', '.join(_sort_keys(writer, ordered, projections) for ordered in order.expressions)}"


def _sort_keys(writer: Writer, ordered: exp.Ordered, projections: Sequence[exp.Expr]) -> str:
    """The sort keys of one ORDER BY item: whether it is NULL, whether it is NaN, and its value.

    A column number that stands for no known projection is the only key.
    """
    refuse_other_args(ordered, ("this", "desc", "nulls_first"))
    descending, nulls_first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
    direction = "DESC" if descending else "ASC"
    node = _numbered_projection(ordered.this, projections)
    if isinstance(node, int):
        return f"{node} {direction} NULLS {'FIRST' if nulls_first else 'LAST'}"
    alias, value_sql = _alias_of(node, projections), writer.write(resolve_aliases(node, projections))
    # DuckDB takes a name that stands alone for an alias, and one in an expression for a column of the tables.
    sorted_sql = value_sql if alias is None else quote_identifier(alias)
    null_key = f"({value_sql} IS NULL) {'DESC' if nulls_first else 'ASC'}"
    return f"{null_key}, own_is_nan({value_sql}) {'ASC' if descending else 'DESC'}, {sorted_sql} {direction}"


def window_sql(writer: Writer, node: exp.Window) -> str:
    """`(PARTITION BY … ORDER BY … ROWS …)`."""
    partition, spec = node.args.get("partition_by") or [], node.args.get("spec")
    clauses = [f"PARTITION BY {', '.join(writer.write_all(partition))}"] if partition else []
    clauses.append(order_by_sql(writer, node.args.get("order")).strip())
    if spec is not None:
        clauses.append(_frame(writer, spec))
    return f"({' '.join(filter(None, clauses))})"


def _frame(writer: Writer, spec: exp.WindowSpec) -> str:
    kind = str(spec.args.get("kind")).upper()
    refuse_other_args(spec, ("kind", "start", "start_side", "end", "end_side"))
    has_distance = any(isinstance(spec.args.get(side), exp.Expr) for side in ("start", "end"))
    if kind not in _FRAME_KINDS or (kind == "RANGE" and has_distance):  # the sort keys of such a frame would be three
        raise NotImplementedConstruct(f"window frame {kind}{' with a distance' if has_distance else ''}")
    start = _bound(writer, spec, "start")
    if spec.args.get("end") is None:
        return f"{kind} {start}"
    return f"{kind} BETWEEN {start} AND {_bound(writer, spec, 'end')}"


def _bound(writer: Writer, spec: exp.WindowSpec, side: str) -> str:
    bound = spec.args[side]
    distance = writer.write(bound) if isinstance(bound, exp.Expr) else str(bound)
    return f"{distance} {spec.args.get(f'{side}_side') or ''}".strip()


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


def _alias_of(node: exp.Expr, projections: Sequence[exp.Expr]) -> str | None:
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


def _numbered_projection(node: exp.Expr, projections: Sequence[exp.Expr]) -> exp.Expr | int:
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
