"""Writes casts, STRUCTs and arrays as DuckDB SQL.

SQLGlot parses typed constructors (`STRUCT<…>(…)`, `ARRAY<…>[…]`) as casts. Where DuckDB converts differently from
BigQuery, a macro in `functions.sql` chooses the conversion by the type found at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import TableField, canonical_type, quote_identifier, to_duckdb_type
from bigquery_standin.sql.syntax import struct_field_name
from bigquery_standin.sql.value_generator import ValueGenerator
from bigquery_standin.sql.value_literals import named_fields


class ConstructorGenerator(ValueGenerator):
    """Adds casts, STRUCTs and arrays."""

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        target, safe = field_of_data_type(expression.to), isinstance(expression, exp.TryCast)
        constructed = self._constructor(expression.this, target)
        written = constructed or self.sql(expression.this)
        if constructed is None and target.mode != "REPEATED" and target.type in ("STRING", "INT64", "BOOL"):
            return f"own_{'safe_' if safe else ''}to_{target.type.lower()}({written})"
        if constructed is None and target.mode != "REPEATED" and target.type == "BYTES":
            return f"own_bytes({written})"
        return f"{'TRY_CAST' if safe else 'CAST'}({written} AS {to_duckdb_type(target)})"

    trycast_sql = cast_sql

    def _constructor(self, node: exp.Expr, target: TableField) -> str | None:
        """The SQL of a constructor of the type `target`, or of a written STRUCT or array that is cast to `target`.

        None for any other node. BigQuery matches the fields by position. In a cast, DuckDB would match them by name.
        """
        names = [field.name for field in target.fields]
        if isinstance(node, exp.Struct):
            return self.struct(node.expressions, names)
        if isinstance(node, exp.Array) and not has_rows_of_query(node) and target.mode == "REPEATED":
            element = TableField("", target.type, fields=target.fields)
            return f"[{', '.join(self._constructor(item, element) or self.sql(item) for item in node.expressions)}]"
        if target.type != "STRUCT" or target.mode == "REPEATED":
            return None
        fields = struct_items(node)
        return None if fields is None else self.struct(fields, names)

    def struct(self, items: Sequence[exp.Expr], names: Sequence[str] | None = None) -> str:
        """SQL of a DuckDB struct.

        `names`: the field names, such as those of a declared type; None to infer them from the items as BigQuery does.
        """
        if not items:
            raise NotImplementedConstruct("STRUCT without fields")
        names = _inferred_names(items) if names is None else names
        if len(names) != len(items):
            raise InvalidQuery(f"STRUCT has [{len(items)}] fields, expected [{len(names)}]: {', '.join(names)}")
        if len({name.lower() for name in names}) != len(names):
            raise NotImplementedConstruct(f"STRUCT with a field name twice: {', '.join(names)}")
        values = [self.sql(item.this if isinstance(item, exp.Alias) else item) for item in items]
        pairs = (f"{quote_identifier(name)} := {value}" for name, value in zip(names, values, strict=True))
        return f"struct_pack({', '.join(pairs)})"

    def tuple_sql(self, expression: exp.Tuple) -> str:
        return self.struct(
            struct_items(expression) or [], [f"_field_{i + 1}" for i in range(len(expression.expressions))]
        )

    def array_sql(self, expression: exp.Array) -> str:
        items = expression.expressions
        if has_rows_of_query(expression):
            return f"ARRAY({self.sql(items[0])})"
        first = struct_items(items[0]) if items else None
        if first is None:
            return f"[{', '.join(map(self.sql, items))}]"
        names = _inferred_names(first)
        return f"[{', '.join(self._element_struct(item, names) for item in items)}]"

    def _element_struct(self, node: exp.Expr, names: list[str]) -> str:
        """A STRUCT as an array's element, with the field names of the first element.

        BigQuery matches the fields of elements by position. DuckDB would make one field of each different name.
        """
        fields = struct_items(node)
        if fields is None:
            if isinstance(node, exp.Null):
                return "NULL"
            raise NotImplementedConstruct("array of STRUCT literals and other expressions")
        for field, name in zip(fields, names, strict=False):
            if (struct_field_name(field) or name).lower() != name.lower():
                raise NotImplementedConstruct("array of STRUCTs with different field names")
        return self.struct(fields, names)

    def bracket_sql(self, expression: exp.Bracket) -> str:
        if len(expression.expressions) != 1:
            raise NotImplementedConstruct("array subscript of this form")
        array, position = self.sql(expression.this), self.sql(expression.expressions[0])
        index = position if expression.args.get("offset") == 1 else f"({position} + 1)"
        error = f"own_fail('Array index ' || CAST({position} AS VARCHAR) || ' is out of bounds')"
        otherwise = "NULL" if expression.args.get("safe") else error
        return f"CASE WHEN {index} < 1 OR {index} > len({array}) THEN {otherwise} ELSE ({array})[{index}] END"


def _inferred_names(items: Sequence[exp.Expr]) -> list[str]:
    return [struct_field_name(item) or f"_field_{number}" for number, item in enumerate(items, start=1)]


def struct_items(node: exp.Expr) -> list[exp.Expr] | None:
    """The fields of `STRUCT(…)` or `(a, b)`; None for other expressions. Raises InvalidQuery for `(a AS b, …)`."""
    if isinstance(node, exp.Tuple) and any(isinstance(item, exp.Alias) for item in node.expressions):
        raise InvalidQuery("Syntax error: Unexpected keyword AS: only STRUCT(…) has field names")
    if isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "STRUCT"):
        return list(node.expressions)
    return None


def has_rows_of_query(node: exp.Array) -> bool:
    """Whether the array has all rows of a query: ARRAY(SELECT …). In brackets, [(SELECT …)] has one element."""
    items = node.expressions
    return len(items) == 1 and isinstance(items[0], exp.Query) and not node.args.get("value_constructor")


def field_of_data_type(kind: exp.DataType) -> TableField:
    """A field without a name that has this type. Nested fields without a name get `_field_N`, counted from 1.

    Raises InvalidQuery for ARRAY without one element type, NotImplementedConstruct for an unsupported type.
    """
    if kind.this is exp.DType.ARRAY:
        if len(kind.expressions) != 1:
            raise InvalidQuery("Syntax error: ARRAY needs one element type, as in ARRAY<INT64>")
        element = field_of_data_type(kind.expressions[0])
        return TableField("", element.type, "REPEATED", element.fields)
    if kind.this is exp.DType.STRUCT:
        return TableField("", "STRUCT", fields=named_fields(tuple(_struct_field(item) for item in kind.expressions)))
    if kind.expressions:
        raise NotImplementedConstruct(f"type {kind.sql(dialect='bigquery')}")
    return TableField("", canonical_type(kind.sql(dialect="bigquery")))


def _struct_field(item: exp.Expr) -> TableField:
    if not isinstance(item, exp.ColumnDef):
        assert isinstance(item, exp.DataType)  # STRUCT<INT64, STRING>: fields without names
        return field_of_data_type(item)
    inner = field_of_data_type(item.args["kind"])
    return TableField(item.name, inner.type, inner.mode, inner.fields)
