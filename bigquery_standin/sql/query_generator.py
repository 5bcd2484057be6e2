"""Writes queries as DuckDB SQL: SELECT, FROM, set operations, and ORDER BY in BigQuery's order.

It also resolves aliases of the SELECT list and column numbers. In GROUP BY, QUALIFY and ORDER BY, if a name is both an
alias and a column, BigQuery reads it as the alias, and DuckDB mostly as the column. BigQuery sorts NULL lowest, then
NaN, then numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.aliases import (
    alias_number,
    alias_of,
    has_alias,
    numbered_projection,
    projections_of,
    resolve_aliases,
)
from bigquery_standin.sql.constructor_generator import struct_items
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.sql.function_generator import FunctionGenerator
from bigquery_standin.sql.literals import unsupported_when
from bigquery_standin.sql.syntax import integer_literal, names_a_cte
from bigquery_standin.sql.table_names import table_name_of
from bigquery_standin.sql.type_parser import field_of

_JOINS = ("", "INNER", "CROSS", "LEFT", "LEFT OUTER", "RIGHT", "RIGHT OUTER", "FULL", "FULL OUTER")
_CLAUSES_THAT_NEED_FROM = {
    "where": "a WHERE",
    "group": "a GROUP BY",
    "having": "a HAVING",
    "order": "an ORDER BY",
}


class QueryGenerator(FunctionGenerator):
    """Adds queries: the whole translation."""

    _unnest_count = 0  # how many UNNESTs were written so far, to number their relations

    def select_sql(self, expression: exp.Select) -> str:
        for part, name in _CLAUSES_THAT_NEED_FROM.items():
            if expression.args.get("from_") is None and expression.args.get(part):
                raise InvalidQuery(f"Query without FROM clause cannot have {name} clause")
        return super().select_sql(expression)

    def where_sql(self, expression: exp.Where) -> str:
        # BigQuery knows no aliases in WHERE. DuckDB does, but not in ON, so the condition is put there.
        names_alias = has_alias(expression.this, projections_of(expression))
        return f" {'SEMI JOIN (SELECT 1) ON' if names_alias else 'WHERE'} {self.sql(expression.this)}"

    def group_sql(self, expression: exp.Group) -> str:
        keys = [self._group_key(key, projections_of(expression)) for key in expression.expressions]
        return f" GROUP BY {', '.join(keys)}"

    def _group_key(self, key: exp.Expr, projections: Sequence[exp.Expr]) -> str:
        """The number of a result column if the key is this number or the column's alias; else the key's SQL."""
        ordinal = integer_literal(key)
        if ordinal is None:
            ordinal = alias_number(key, projections)
        return self.sql(key) if ordinal is None else str(ordinal)

    def qualify_sql(self, expression: exp.Qualify) -> str:
        return f" QUALIFY {self.sql(resolve_aliases(expression.this, projections_of(expression)))}"

    def ordered_sql(self, expression: exp.Ordered) -> str:
        """The sort keys of one ORDER BY item: whether it is NULL, whether it is NaN, and its value.

        A column number that stands for no known projection is the only key.
        """
        projections = projections_of(expression.parent)
        descending, nulls_first = bool(expression.args.get("desc")), bool(expression.args.get("nulls_first"))
        direction = "DESC" if descending else "ASC"
        node = numbered_projection(expression.this, projections)
        if isinstance(node, int):
            return f"{node} {direction} NULLS {'FIRST' if nulls_first else 'LAST'}"
        alias, written = alias_of(node, projections), self.sql(resolve_aliases(node, projections))
        # DuckDB takes a name that stands alone for an alias, and one in an expression for a column of the tables.
        sorted_by = written if alias is None else quote_identifier(alias)
        null_key = f"({written} IS NULL) {'DESC' if nulls_first else 'ASC'}"
        return f"{null_key}, own_is_nan({written}) {'ASC' if descending else 'DESC'}, {sorted_by} {direction}"

    def limit_sql(self, expression: exp.Limit, top: bool = False) -> str:
        return f" LIMIT {self._row_count(expression.expression)}"

    def offset_sql(self, expression: exp.Offset) -> str:
        return f" OFFSET {self._row_count(expression.expression)}"

    def _row_count(self, node: exp.Expr) -> int:
        count = integer_literal(node)
        if isinstance(node, exp.Parameter):
            value = self.known_value(node)
            count = 0 if self.context.parameters is None else value.value if value is not None else None
        if not isinstance(count, int) or count < 0:
            found = node.sql(dialect="bigquery")
            raise InvalidQuery(f"LIMIT or OFFSET expects an integer literal or parameter of 0 or more, found [{found}]")
        return count

    def union_sql(self, expression: exp.SetOperation) -> str:
        if not isinstance(expression, exp.Union) and not expression.args.get("distinct"):
            raise InvalidQuery(f"{expression.key.upper()} ALL is not supported: use {expression.key.upper()} DISTINCT")
        return self.set_operations(expression)

    intersect_sql = union_sql
    except_sql = union_sql

    def values_sql(self, expression: exp.Values, values_as_table: bool = True) -> str:
        """The rows of an INSERT."""
        return f"VALUES {', '.join(f'({self.expressions(row)})' for row in expression.expressions)}"

    # FROM.

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        kind = " ".join(part for part in (expression.side.upper(), expression.kind.upper()) if part)
        if kind not in _JOINS:
            raise NotImplementedConstruct(f"{kind} JOIN")
        if kind != "CROSS" and expression.args.get("on") is None and not expression.args.get("using"):
            if not isinstance(expression.this, exp.Unnest):
                raise InvalidQuery(f"Syntax error: Expected keyword ON or keyword USING after {kind} JOIN")
            expression.set("on", exp.true())
        return super().join_sql(expression)

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        alias, version = expression.args.get("alias"), expression.args.get("version")
        time = system_time(version) if version is not None else None
        if names_a_cte(expression):
            if time is not None:
                raise InvalidQuery(f"FOR SYSTEM_TIME AS OF cannot be used with the WITH clause table {expression.name}")
            return quote_identifier(expression.name) + (f" AS {quote_identifier(alias.name)}" if alias else "")
        _refuse_array_path(expression)
        name = table_name_of(expression)
        # SQLGlot takes the whole path of a quoted INFORMATION_SCHEMA view for its alias; BigQuery takes the last part.
        alias_name = alias.name if alias is not None and "." not in alias.name else name.table.rpartition(".")[2]
        return f"{self.context.resolve_table(name, time)} AS {quote_identifier(alias_name)}"

    def unnest_sql(self, expression: exp.Unnest) -> str:
        if len(expression.expressions) != 1:
            raise NotImplementedConstruct("UNNEST of several arrays")
        array = expression.expressions[0]
        alias, offset = expression.args.get("alias"), expression.args.get("offset")
        name = alias.columns[0].name if alias is not None and alias.columns else alias.name if alias else ""
        if not name and "offset" not in expression.args:  # `FROM t, t.items`, which SQLGlot reads as UNNEST(t.items)
            name = array.name
        written = self.sql(array)
        self._unnest_count += 1
        relation = f"_unnest_{self._unnest_count}"
        if not name or self._has_struct_elements(array):  # without an alias, only the STRUCTs' fields can be named
            value, relation = f"UNNEST({written}, max_depth := 2)", name or relation
        else:
            value = f"UNNEST({_refusing_structs(expression, written)}) AS {quote_identifier(name)}"
        position = ""
        if offset:
            if relation == name:
                _refuse_whole_row(expression, name)
            offset_name = offset.name if isinstance(offset, exp.Identifier) else "offset"
            position = f", generate_subscripts({written}, 1) - 1 AS {quote_identifier(offset_name)}"
        lateral = "LATERAL " if expression.find(exp.Column) is not None else ""
        return f"{lateral}(SELECT {value}{position}) AS {quote_identifier(relation)}"

    def _has_struct_elements(self, array: exp.Expr) -> bool:
        """Whether the elements are known to be STRUCTs, whose fields are then the columns of UNNEST."""
        if isinstance(array, exp.Cast):
            return field_of(array.to).type == "STRUCT"
        if isinstance(array, exp.Array) and array.expressions:
            first = array.expressions[0]
            is_typed_struct = isinstance(first, exp.Cast) and first.to.this is exp.DType.STRUCT
            return is_typed_struct or struct_items(first) is not None
        return False


def system_time(version: exp.Version) -> exp.Expression:
    """The expression of FOR SYSTEM_TIME AS OF. Raises NotImplementedConstruct for any other FOR."""
    if version.name.upper() != "TIMESTAMP" or str(version.args.get("kind")).upper() != "AS OF":
        raise NotImplementedConstruct("FOR with anything but SYSTEM_TIME AS OF")
    expression = version.expression
    assert isinstance(expression, exp.Expression)
    return expression


def _refuse_array_path(node: exp.Table) -> None:
    """Refuses `t.items` in FROM if t is a table of this query or an outer one: BigQuery reads `t.items` as an array."""
    if len(node.parts) == 1:
        return
    first, select = node.parts[0].name.lower(), node.parent_select
    while select is not None:
        for source in select.find_all(exp.Table, exp.Subquery):
            if source is not node and source.parent_select is select and source.alias_or_name.lower() == first:
                raise NotImplementedConstruct(f"implicit UNNEST of {node.sql(dialect='bigquery')}: write UNNEST(…)")
        select = select.parent_select


def _refuse_whole_row(node: exp.Unnest, name: str) -> None:
    """Refuses whole rows of UNNEST(structs) WITH OFFSET, which here contain the offset too. `name`: UNNEST's alias."""
    select = node.parent_select
    for column in select.find_all(exp.Column) if select is not None else ():
        names_row = column.table == name if isinstance(column.this, exp.Star) else column.sql() == name
        if names_row:
            raise NotImplementedConstruct(f"{column.sql()} of UNNEST of STRUCTs WITH OFFSET: name the fields")


def _refusing_structs(node: exp.Unnest, array_sql: str) -> str:
    """SQL of the array. If the query selects `*`, the SQL fails at run time for an array of STRUCTs.

    BigQuery would select the fields of the STRUCTs, but this SQL would select the whole STRUCTs.
    """
    select = node.parent_select
    selects_star = isinstance(select, exp.Select) and any(item.is_star for item in select.expressions)
    if not selects_star:
        return array_sql
    return unsupported_when(
        f"typeof({array_sql}) LIKE 'STRUCT%[]'", "SELECT * over UNNEST of an array of STRUCTs", array_sql
    )
