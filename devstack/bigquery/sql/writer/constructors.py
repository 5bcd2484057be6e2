"""CAST, SAFE_CAST and the typed constructors `STRUCT<…>(…)` and `ARRAY<…>[…]`, which SQLGlot reads as casts."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from devstack.bigquery.sql.types import TableField, to_duckdb_type
from devstack.bigquery.sql.writer.casts import convert, field_of
from devstack.bigquery.sql.writer.containers import struct, struct_items
from devstack.bigquery.sql.writer.core import Writer, handles
from devstack.bigquery.sql.writer.literals import named_fields


@handles(exp.Cast, exp.TryCast, parts="this to safe")
def _cast(writer: Writer, node: exp.Cast) -> str:
    target, safe = field_of(node.to), isinstance(node, exp.TryCast)
    constructed = _constructed(writer, node.this, target)
    if constructed is None and target.mode != "REPEATED" and target.type != "STRUCT":
        return convert(writer.write(node.this), target.type, safe=safe)
    function = "TRY_CAST" if safe else "CAST"
    return f"{function}({constructed or writer.write(node.this)} AS {to_duckdb_type(target)})"


def _constructed(writer: Writer, node: exp.Expr, target: TableField) -> str | None:
    if isinstance(node, exp.Struct):
        return _typed(writer, node.expressions, target)
    if isinstance(node, exp.Array) and target.mode == "REPEATED":
        element = TableField("", target.type, fields=target.fields)
        return f"[{', '.join(_typed_element(writer, item, element) for item in node.expressions)}]"
    return None


def _typed(writer: Writer, items: Sequence[exp.Expr], target: TableField) -> str:
    return struct(writer, items, [field.name for field in named_fields(target.fields)])


def _typed_element(writer: Writer, item: exp.Expr, element: TableField) -> str:
    fields = struct_items(item) if element.type == "STRUCT" else None
    return writer.write(item) if fields is None else _typed(writer, fields, element)
