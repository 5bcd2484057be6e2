"""Writes queries as DuckDB SQL: SELECT, FROM, set operations, and ORDER BY in BigQuery's order.

It also resolves aliases of the SELECT list and column numbers. In GROUP BY, QUALIFY and ORDER BY, if a name is both an
alias and a column, BigQuery reads it as the alias, and DuckDB mostly as the column. BigQuery sorts NULL lowest, then
NaN, then numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.sql.function_generator import FunctionGenerator
from bigquery_standin.sql.syntax import first_select, integer_literal, names_a_cte, struct_field_name
from bigquery_standin.sql.type_parser import table_name_of

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
        """The sort keys of one ORDER BY item: whether it is NULL, whether it is NaN, and its value."""
        projections = projections_of(expression.parent)
        descending, nulls_first = bool(expression.args.get("desc")), bool(expression.args.get("nulls_first"))
        direction = "DESC" if descending else "ASC"
        node = numbered_projection(expression.this, projections)
        alias, written = alias_of(node, projections), self.sql(resolve_aliases(node, projections))
        # DuckDB takes a name that stands alone for an alias, and one in an expression for a column of the tables.
        sorted_by = written if alias is None else quote_identifier(alias)
        null_key = f"({written} IS NULL) {'DESC' if nulls_first else 'ASC'}"
        return f"{null_key}, own_is_nan({written}) {'ASC' if descending else 'DESC'}, {sorted_by} {direction}"

    def limit_sql(self, expression: exp.Limit, top: bool = False) -> str:
        return f" LIMIT {_row_count(expression.expression)}"

    def offset_sql(self, expression: exp.Offset) -> str:
        return f" OFFSET {_row_count(expression.expression)}"

    def union_sql(self, expression: exp.SetOperation) -> str:
        return self.set_operations(expression)

    def values_sql(self, expression: exp.Values, values_as_table: bool = True) -> str:
        """The rows of an INSERT."""
        return f"VALUES {', '.join(f'({self.expressions(row)})' for row in expression.expressions)}"

    # FROM.

    def join_sql(self, expression: exp.Join, join_op: str | None = None) -> str:
        kind = " ".join(part for part in (expression.side.upper(), expression.kind.upper()) if part)
        if kind not in _JOINS:
            raise NotImplementedConstruct(f"{kind} JOIN")
        if kind != "CROSS" and expression.args.get("on") is None:
            if not isinstance(expression.this, exp.Unnest):
                raise InvalidQuery(f"Syntax error: Expected keyword ON after {kind} JOIN")
            expression.set("on", exp.true())
        return super().join_sql(expression)

    def table_sql(self, expression: exp.Table, sep: str = " AS ") -> str:
        alias, version = expression.args.get("alias"), expression.args.get("version")
        time = system_time(version) if version is not None else None
        if names_a_cte(expression):
            if time is not None:
                raise InvalidQuery(f"FOR SYSTEM_TIME AS OF cannot be used with the WITH clause table {expression.name}")
            return quote_identifier(expression.name) + (f" AS {quote_identifier(alias.name)}" if alias else "")
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
        written = self.sql(array)
        self._unnest_count += 1
        select = expression.parent_select
        if not name or (select is not None and any(item.is_star for item in select.expressions)):
            # The columns of an array of STRUCTs are their fields; here there is one column, the whole STRUCT.
            raise NotImplementedConstruct("UNNEST without an alias, or with SELECT *")
        value = f"UNNEST({written}) AS {quote_identifier(name)}"
        position = ""
        if offset:
            offset_name = offset.name if isinstance(offset, exp.Identifier) else "offset"
            position = f", generate_subscripts({written}, 1) - 1 AS {quote_identifier(offset_name)}"
        lateral = "LATERAL " if expression.find(exp.Column) is not None else ""
        return f"{lateral}(SELECT {value}{position}) AS {quote_identifier(f'_unnest_{self._unnest_count}')}"


def _row_count(node: exp.Expr) -> int:
    count = integer_literal(node)
    if count is None or count < 0:
        found = node.sql(dialect="bigquery")
        raise InvalidQuery(f"LIMIT or OFFSET expects an integer literal of 0 or more, found [{found}]")
    return count


def system_time(version: exp.Version) -> exp.Expression:
    """The expression of FOR SYSTEM_TIME AS OF. Raises NotImplementedConstruct for any other FOR."""
    if version.name.upper() != "TIMESTAMP" or str(version.args.get("kind")).upper() != "AS OF":
        raise NotImplementedConstruct("FOR with anything but SYSTEM_TIME AS OF")
    expression = version.expression
    assert isinstance(expression, exp.Expression)
    return expression


def projections_of(clause: exp.Expr | None) -> Sequence[exp.Expr]:
    """The SELECT list of the clause's query; empty for ORDER BY in a window or an aggregate."""
    query = clause.parent if clause is not None else None
    if isinstance(query, exp.Select):
        return query.expressions
    first = first_select(query) if isinstance(query, exp.SetOperation) else None
    return [] if first is None else [_column_reference(item) for item in first.expressions]


def _column_reference(item: exp.Expr) -> exp.Expr:
    """A reference by name to a result column of a set operation, for ORDER BY; `*` for a column without a name."""
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


def numbered_projection(node: exp.Expr, projections: Sequence[exp.Expr]) -> exp.Expr:
    """The projection that a column number stands for, by its alias if it has one; any other expression unchanged.

    Without projections, numbers are unchanged, too. Raises InvalidQuery for a number that no projection has, and
    NotImplementedConstruct if the columns up to it are not known.
    """
    ordinal = integer_literal(node)
    if ordinal is None or not projections:
        return node
    if any(isinstance(item, exp.Star) or item.is_star for item in projections[:ordinal]):
        raise NotImplementedConstruct(f"ORDER BY {ordinal}, a column without a name or after *")
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
