"""Writes windows, and ORDER BY in BigQuery's order: NULL lowest, then NaN, then numbers."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.field_types import quote_identifier
from devstack.bigquery.sql.writer.node_writer import Writer, refuse_other_args
from devstack.bigquery.sql.writer.select_aliases import alias_of, numbered_projection, resolve_aliases

_FRAME_KINDS = ("ROWS", "RANGE")


def order_by_sql(
    writer: Writer, order: exp.Order | None, projections: Sequence[exp.Expr] = (), *, is_struct: bool = False
) -> str:
    """` ORDER BY …`, or "" without one. Column numbers and aliases refer to `projections`, the SELECT list.

    `is_struct`: whether the projections are the fields of SELECT AS STRUCT, which DuckDB does not know as columns.
    """
    if order is None:
        return ""
    keys = (_sort_keys(writer, ordered, projections, is_struct) for ordered in order.expressions)
    return f" ORDER BY {', '.join(keys)}"


def _sort_keys(writer: Writer, ordered: exp.Ordered, projections: Sequence[exp.Expr], is_struct: bool) -> str:
    """The sort keys of one ORDER BY item: whether it is NULL, whether it is NaN, and its value.

    A column number that stands for no known projection is the only key.
    """
    refuse_other_args(ordered, ("this", "desc", "nulls_first"))
    descending, nulls_first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
    direction = "DESC" if descending else "ASC"
    node = numbered_projection(ordered.this, projections, "ORDER BY")
    if isinstance(node, int):
        return f"{node} {direction} NULLS {'FIRST' if nulls_first else 'LAST'}"
    alias, value_sql = alias_of(node, projections), writer.write(resolve_aliases(node, projections))
    # DuckDB takes a name that stands alone for an alias, and one in an expression for a column of the tables.
    sorted_sql = value_sql if alias is None or is_struct else quote_identifier(alias)
    null_key = f"({value_sql} IS NULL) {'DESC' if nulls_first else 'ASC'}"
    return f"{null_key}, {is_nan_sql(value_sql)} {'ASC' if descending else 'DESC'}, {sorted_sql} {direction}"


def is_nan_sql(value_sql: str) -> str:
    """SQL of whether a value of any type is NaN: the greatest number in DuckDB, the lowest in BigQuery."""
    return f"(typeof({value_sql}) IN ('DOUBLE', 'FLOAT') AND CAST({value_sql} AS VARCHAR) = 'nan')"


def window_sql(writer: Writer, node: exp.Window) -> str:
    """`name` or `(PARTITION BY … ORDER BY … ROWS …)`."""
    partition, order = node.args.get("partition_by") or [], node.args.get("order")
    spec, base = node.args.get("spec"), node.args.get("alias")
    if base is not None and not partition and order is None and spec is None:
        return quote_identifier(base.name)
    clauses = [quote_identifier(base.name)] if base is not None else []
    if partition:
        clauses.append(f"PARTITION BY {', '.join(writer.write_all(partition))}")
    if order is not None:
        clauses.append(_window_order(writer, order, spec).strip())
    if spec is not None:
        clauses.append(_frame(writer, spec))
    return f"({' '.join(clauses)})"


def _window_order(writer: Writer, order: exp.Order, spec: exp.WindowSpec | None) -> str:
    """The ORDER BY of a window.

    A RANGE frame with a distance (`RANGE 5 PRECEDING`) allows only one sort key. So the additional sort key for NaN is
    left out, and NaN sorts as in DuckDB.
    """
    if spec is None or spec.args.get("kind") != "RANGE" or not _has_distance(spec):
        return order_by_sql(writer, order)
    if len(order.expressions) != 1:
        raise InvalidQuery("A RANGE frame with a distance has exactly one ORDER BY expression")
    ordered = order.expressions[0]
    nulls = "FIRST" if ordered.args.get("nulls_first") else "LAST"
    return f" ORDER BY {writer.write(ordered.this)} {'DESC' if ordered.args.get('desc') else 'ASC'} NULLS {nulls}"


def _has_distance(spec: exp.WindowSpec) -> bool:
    return any(isinstance(spec.args.get(side), exp.Expr) for side in ("start", "end"))


def _frame(writer: Writer, spec: exp.WindowSpec) -> str:
    kind = str(spec.args.get("kind")).upper()
    refuse_other_args(spec, ("kind", "start", "start_side", "end", "end_side"))
    if kind not in _FRAME_KINDS:
        raise NotImplementedConstruct(f"window frame {kind}")
    start = _bound(writer, spec, "start")
    if spec.args.get("end") is None:
        return f"{kind} {start}"
    return f"{kind} BETWEEN {start} AND {_bound(writer, spec, 'end')}"


def _bound(writer: Writer, spec: exp.WindowSpec, side: str) -> str:
    bound = spec.args[side]
    distance = writer.write(bound) if isinstance(bound, exp.Expr) else str(bound)
    return f"{distance} {spec.args.get(f'{side}_side') or ''}".strip()
