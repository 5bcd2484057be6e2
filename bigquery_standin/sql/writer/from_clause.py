"""Writes the FROM clause: tables, time travel, joins, subqueries and UNNEST."""

from __future__ import annotations

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.sql.runtime_errors import unsupported_when
from bigquery_standin.sql.table_names import table_name_of
from bigquery_standin.sql.writer.casts import field_of_data_type
from bigquery_standin.sql.writer.columns_and_structs import struct_items
from bigquery_standin.sql.writer.literals import parameter_value
from bigquery_standin.sql.writer.node_writer import PARAMETERS, Writer, handles, refuse_other_args

_JOINS = ("", "INNER", "CROSS", "LEFT", "LEFT OUTER", "RIGHT", "RIGHT OUTER", "FULL", "FULL OUTER")


@handles(exp.From, supported_args="this")
def _from(writer: Writer, node: exp.From) -> str:
    return f" FROM {writer.write(node.this)}"


@handles(exp.Join, supported_args="this side kind on using")
def _join(writer: Writer, node: exp.Join) -> str:
    kind = " ".join(part for part in (node.side.upper(), node.kind.upper()) if part)
    if kind not in _JOINS:
        raise NotImplementedConstruct(f"{kind} JOIN")
    source = writer.write(node.this)
    using = ", ".join(quote_identifier(column.name) for column in node.args.get("using") or [])
    on = node.args.get("on")
    keyword = f"{kind} JOIN".lstrip()
    if kind == "CROSS":
        if on is not None or using:
            raise InvalidQuery("Syntax error: Unexpected keyword ON or USING after CROSS JOIN")
        return f" {keyword} {source}"
    if using:
        return f" {keyword} {source} USING ({using})"
    if on is None and not isinstance(node.this, exp.Unnest):
        raise InvalidQuery(f"Syntax error: Expected keyword ON or keyword USING after {keyword}")
    return f" {keyword} {source} ON {writer.write(on) if on is not None else 'TRUE'}"


@handles(exp.Table, supported_args="this db catalog alias version")
def _table(writer: Writer, node: exp.Table) -> str:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise NotImplementedConstruct("column names in a table alias")
    version = node.args.get("version")
    time = system_time(version) if version is not None else None
    if len(node.parts) == 1 and writer.is_cte(node.name):
        if time is not None:
            raise InvalidQuery(f"FOR SYSTEM_TIME AS OF cannot be used with the WITH clause table {node.name}")
        return quote_identifier(node.name) + (f" AS {quote_identifier(alias.name)}" if alias is not None else "")
    _refuse_array_path(node)
    name = table_name_of(node)
    # SQLGlot takes the whole path of a quoted INFORMATION_SCHEMA view for its alias; BigQuery takes the last part.
    alias_name = alias.name if alias is not None and "." not in alias.name else name.table.rpartition(".")[2]
    return f"{writer.resolve_table(name, time)} AS {quote_identifier(alias_name)}"


def system_time(version: exp.Version) -> exp.Expression:
    """The expression of FOR SYSTEM_TIME AS OF. Raises NotImplementedConstruct for any other FOR."""
    refuse_other_args(version, ("this", "kind", "expression"))
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


@handles(exp.Subquery, supported_args="this alias with_")
def _subquery(writer: Writer, node: exp.Subquery) -> str:
    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        raise NotImplementedConstruct("column names in a table alias")
    return f"({writer.write(node.this)})" + (f" AS {quote_identifier(alias.name)}" if alias is not None else "")


@handles(exp.Unnest, supported_args="expressions alias offset")
def _unnest(writer: Writer, node: exp.Unnest) -> str:
    if len(node.expressions) != 1:
        raise NotImplementedConstruct("UNNEST of several arrays")
    array = node.expressions[0]
    alias, offset = node.args.get("alias"), node.args.get("offset")
    value_name = alias.columns[0].name if alias is not None and alias.columns else alias.name if alias else ""
    if not value_name and "offset" not in node.args:  # `FROM t, t.items`, which SQLGlot reads as UNNEST(t.items)
        value_name = array.name
    array_sql = writer.write(array)
    writer.unnest_count += 1
    relation = f"_unnest_{writer.unnest_count}"
    if not value_name or _has_struct_elements(writer, array):  # without an alias, only the STRUCTs' fields can be named
        value_sql, relation = f"UNNEST({array_sql}, max_depth := 2)", value_name or relation
    else:
        value_sql = f"UNNEST({_refusing_structs(node, array_sql)}) AS {quote_identifier(value_name or relation)}"
    position_sql = ""
    if offset and relation == value_name:
        _refuse_whole_row(node, value_name)
    if offset:
        offset_name = offset.name if isinstance(offset, exp.Identifier) else "offset"
        position_sql = f", generate_subscripts({array_sql}, 1) - 1 AS {quote_identifier(offset_name)}"
    lateral = "LATERAL " if node.find(exp.Column) is not None else ""
    return f"{lateral}(SELECT {value_sql}{position_sql}) AS {quote_identifier(relation)}"


def _has_struct_elements(writer: Writer, array: exp.Expr) -> bool:
    """Whether the elements are known to be STRUCTs, whose fields are then the columns of UNNEST."""
    if isinstance(array, exp.Cast):
        return field_of_data_type(array.to).type == "STRUCT"
    if isinstance(array, PARAMETERS) and not writer.check_only:
        return parameter_value(writer, array.name).field.type == "STRUCT"
    if isinstance(array, exp.Column) and array.name.lower() in writer.variables and len(array.parts) == 1:
        return writer.variables[array.name.lower()].field.type == "STRUCT"
    if isinstance(array, exp.Array) and array.expressions:
        first = array.expressions[0]
        is_typed_struct = isinstance(first, exp.Cast) and first.to.this is exp.DType.STRUCT
        return struct_items(first) is not None or is_typed_struct
    return False


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
