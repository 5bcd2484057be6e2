"""Writes windows, and ORDER BY in BigQuery's order: NULL lowest, then NaN, then numbers."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from devstack.bigquery.bigquery_errors import InvalidQuery, NotImplementedConstruct
from devstack.bigquery.sql.field_types import quote_identifier
from devstack.bigquery.sql.writer.node_writer import Writer, integer_literal, refuse_other_args

_FRAME_KINDS = ("ROWS", "RANGE")


def order_by_sql(writer: Writer, order: exp.Order | None, projections: Sequence[exp.Expr] = ()) -> str:
    """` ORDER BY …`, or "" without one. Ordinals refer to the projections."""
    if order is None:
        return ""
    return " ORDER BY " + ", ".join(_sort_keys(writer, ordered, projections) for ordered in order.expressions)


def _sort_keys(writer: Writer, ordered: exp.Ordered, projections: Sequence[exp.Expr]) -> str:
    refuse_other_args(ordered, ("this", "desc", "nulls_first"))
    value_sql = _sorted_value(writer, ordered.this, projections)
    descending, nulls_first = bool(ordered.args.get("desc")), bool(ordered.args.get("nulls_first"))
    direction = "DESC" if descending else "ASC"
    if value_sql.isdigit():
        return f"{value_sql} {direction} NULLS {'FIRST' if nulls_first else 'LAST'}"
    null_key = f"({value_sql} IS NULL) {'DESC' if nulls_first else 'ASC'}"
    return f"{null_key}, {is_nan_sql(value_sql)} {'ASC' if descending else 'DESC'}, {value_sql} {direction}"


def is_nan_sql(value_sql: str) -> str:
    """SQL of whether a value of any type is NaN: the greatest number in DuckDB, the lowest in BigQuery."""
    return f"(typeof({value_sql}) IN ('DOUBLE', 'FLOAT') AND CAST({value_sql} AS VARCHAR) = 'nan')"


def _sorted_value(writer: Writer, node: exp.Expr, projections: Sequence[exp.Expr]) -> str:
    ordinal = integer_literal(node)
    if ordinal is None or not projections:
        return writer.write(node)
    if any(isinstance(item, exp.Star) or item.is_star for item in projections[:ordinal]):
        return str(ordinal)
    if not 1 <= ordinal <= len(projections):
        raise InvalidQuery(f"ORDER BY column number item is out of range. Max value is {len(projections)}")
    item = projections[ordinal - 1]
    return quote_identifier(item.alias) if isinstance(item, exp.Alias) else writer.write(item)


def window_sql(writer: Writer, node: exp.Window) -> str:
    """`name` or `(PARTITION BY … ORDER BY … ROWS …)`."""
    partition, order = node.args.get("partition_by") or [], node.args.get("order")
    spec, base = node.args.get("spec"), node.args.get("alias")
    if base is not None and not partition and order is None and spec is None:
        return quote_identifier(base.name)
    parts = [quote_identifier(base.name)] if base is not None else []
    if partition:
        parts.append(f"PARTITION BY {', '.join(writer.write_all(partition))}")
    if order is not None:
        parts.append(_window_order(writer, order, spec).strip())
    if spec is not None:
        parts.append(_frame(writer, spec))
    return f"({' '.join(parts)})"


def _window_order(writer: Writer, order: exp.Order, spec: exp.WindowSpec | None) -> str:
    """The ORDER BY of a window.

    A RANGE frame with a distance (`RANGE 5 PRECEDING`) allows only one sort key, so NaN sorts as in DuckDB.
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
