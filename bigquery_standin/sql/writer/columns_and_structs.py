"""Writes columns, variables, STRUCT and ARRAY values, and the access to their fields and elements."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import quote_identifier
from bigquery_standin.sql.writer.literals import value_literal
from bigquery_standin.sql.writer.node_writer import Writer, handles

_PSEUDO_COLUMNS = ("_PARTITIONTIME", "_PARTITIONDATE", "_TABLE_SUFFIX")
_FILE_NAME = "_FILE_NAME"


@handles(exp.Identifier, supported_args="this")
def _identifier(writer: Writer, node: exp.Identifier) -> str:
    return quote_identifier(node.name)


@handles(exp.Column, supported_args="this table db catalog")
def _column(writer: Writer, node: exp.Column) -> str:
    if isinstance(node.this, exp.Star):
        return f"{'.'.join(quote_identifier(part.name) for part in node.parts[:-1])}.{writer.write(node.this)}"
    if node.parts[-1].name.upper() in _PSEUDO_COLUMNS:
        raise NotImplementedConstruct(f"pseudo column {node.parts[-1].name}")
    if node.parts[-1].name.upper() == _FILE_NAME:
        return _file_name(writer, node)
    name = node.parts[0].name.lower()
    if writer.external_tables and len(node.parts) == 1 and node.parent_select is not None:
        _refuse_external_row(writer, node.parent_select, name)
    if name in writer.variables and name not in writer.shadowing_columns and not _is_relation(node, name):
        return _variable(writer, node, name)
    if isinstance(node.this, exp.Dot):
        path = [part.name for part in node.parts[:-1]] + [part.name for part in node.this.parts]
        return ".".join(quote_identifier(part) for part in path)
    return ".".join(quote_identifier(part.name) for part in node.parts)


def _file_name(writer: Writer, node: exp.Column) -> str:
    if not writer.check_only and not writer.external_tables:
        raise InvalidQuery(f"Unrecognized name: {_FILE_NAME}: only external tables have this column")
    return (
        ".".join(quote_identifier(part.name) for part in node.parts[:-1])
        + ("." if len(node.parts) > 1 else "")
        + _FILE_NAME
    )


def _external_sources(writer: Writer, node: exp.Star) -> list[str]:
    """The external tables whose columns this star includes, as `_external_names` names them."""
    select = node.parent_select
    if select is None or not writer.external_tables:
        return []
    parts = node.parent.parts if isinstance(node.parent, exp.Column) else []
    owner = parts[0].name.lower() if len(parts) > 1 else ""
    return [name for name in _external_names(writer, select) if owner in ("", name)]


def _refuse_external_row(writer: Writer, select: exp.Select, name: str) -> None:
    """Refuses `name` if it stands for the whole row of an external table.

    As a STRUCT the row would have the pseudo column _FILE_NAME as an additional field.
    """
    if name in _external_names(writer, select):
        raise NotImplementedConstruct(f"row of external table {name} as a value, beside {_FILE_NAME}: name its columns")


def _external_names(writer: Writer, select: exp.Select) -> list[str]:
    """The external tables in this SELECT's FROM: their lower-case aliases or, without an alias, names."""
    clauses = [select.args.get("from_"), *(select.args.get("joins") or [])]
    sources = [clause.this for clause in clauses if clause is not None]
    return [
        source.alias_or_name.lower()
        for source in sources
        if isinstance(source, exp.Table)
        and len(source.parts) == 1
        and source.name.lower() in writer.external_tables
        and not writer.is_cte(source.name)
    ]


def _is_relation(node: exp.Column, name: str) -> bool:
    """Whether the path's first part, `name`, is a table of the statement: then the path is no field of a variable."""
    if len(node.parts) == 1:
        return False
    return any(source.alias_or_name.lower() == name for source in node.root().find_all(exp.Table, exp.Subquery))


def _variable(writer: Writer, node: exp.Column, name: str) -> str:
    for alias in node.root().find_all(exp.Alias):
        if alias.alias.lower() == name and all(column is not node for column in alias.find_all(exp.Column)):
            raise NotImplementedConstruct(f"name {name} for both a variable and a column alias of one statement")
    fields = "".join(f".{quote_identifier(part.name)}" for part in node.parts[1:])
    literal = value_literal(writer.variables[name])
    return f"({literal}){fields}" if fields else literal


@handles(exp.Dot, supported_args="this expression")
def _dot(writer: Writer, node: exp.Dot) -> str:
    if isinstance(node.expression, exp.Star):
        raise NotImplementedConstruct("expression.*")
    if not isinstance(node.expression, exp.Identifier):
        raise NotImplementedConstruct(f"function {node.sql().split('(')[0]}")
    return f"({writer.write(node.this)}).{quote_identifier(node.expression.name)}"


@handles(exp.Star, supported_args="except_ replace")
def _star(writer: Writer, node: exp.Star) -> str:
    if not isinstance(node.parent, exp.Select | exp.Column):
        raise InvalidQuery('Syntax error: Unexpected "*"')
    excepted = [column.name for column in node.args.get("except_") or []]
    replaced = [
        f"{writer.write(item.this)} AS {quote_identifier(item.alias)}" for item in node.args.get("replace") or []
    ]
    joins = node.parent.args.get("joins") or [] if isinstance(node.parent, exp.Select) else []
    if any(join.args.get("using") for join in joins):  # BigQuery begins with these columns
        raise NotImplementedConstruct("SELECT * with JOIN … USING")
    names = [quote_identifier(name) for name in excepted] + ([_FILE_NAME] if _external_sources(writer, node) else [])
    exclude = f" EXCLUDE ({', '.join(names)})" if names else ""
    return f"*{exclude}" + (f" REPLACE ({', '.join(replaced)})" if replaced else "")


@handles(exp.Bracket, supported_args="this expressions offset safe")
def _element(writer: Writer, node: exp.Bracket) -> str:
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise NotImplementedConstruct("array subscript of this form")
    array, position = writer.write(node.this), writer.write(node.expressions[0])
    index = position if node.args.get("offset") == 1 else f"({position} + 1)"
    outside = f"{index} < 1 OR {index} > len({array})"
    if node.args.get("safe"):
        return f"CASE WHEN {outside} THEN NULL ELSE ({array})[{index}] END"
    error = f"own_fail('Array index ' || CAST({position} AS VARCHAR) || ' is out of bounds')"
    return f"CASE WHEN {outside} THEN {error} ELSE ({array})[{index}] END"


def struct_sql(writer: Writer, items: Sequence[exp.Expr], names: Sequence[str] | None = None) -> str:
    """SQL of a DuckDB struct.

    `names`: the field names, such as those of a declared type; None to infer them from the items as BigQuery does.
    """
    if not items:
        raise NotImplementedConstruct("STRUCT without fields")
    inferred = [struct_field_name(item) for item in items]
    if names is not None and len(names) != len(items):
        raise InvalidQuery(f"STRUCT has [{len(items)}] fields, expected [{len(names)}]: {', '.join(names)}")
    fields = list(names) if names is not None else [n or f"_field_{i}" for i, n in enumerate(inferred, start=1)]
    if len({name.lower() for name in fields}) != len(fields):
        raise NotImplementedConstruct(f"STRUCT with a field name twice: {', '.join(fields)}")
    values = [writer.write(item.this if isinstance(item, exp.Alias) else item) for item in items]
    return f"struct_pack({', '.join(f'{quote_identifier(n)} := {v}' for n, v in zip(fields, values, strict=True))})"


def struct_field_name(item: exp.Expr) -> str:
    """The field name that BigQuery infers: an alias, or the last part of a column's path; "" for other expressions."""
    return item.alias if isinstance(item, exp.Alias) else item.name if isinstance(item, exp.Column | exp.Dot) else ""


def struct_items(node: exp.Expr) -> list[exp.Expr] | None:
    """The fields of `STRUCT(…)` or `(a, b)`; None for other expressions. Raises InvalidQuery for `(a AS b, …)`."""
    if isinstance(node, exp.Tuple) and any(isinstance(item, exp.Alias) for item in node.expressions):
        raise InvalidQuery("Syntax error: Unexpected keyword AS: only STRUCT(…) has field names")
    if isinstance(node, exp.Tuple) or (isinstance(node, exp.Anonymous) and node.name.upper() == "STRUCT"):
        return list(node.expressions)
    return None


@handles(exp.Tuple, supported_args="expressions")
def _tuple(writer: Writer, node: exp.Tuple) -> str:
    return struct_sql(writer, struct_items(node) or [], [f"_field_{i}" for i in range(1, len(node.expressions) + 1)])


@handles(exp.Array, supported_args="expressions")
def _array(writer: Writer, node: exp.Array) -> str:
    items = node.expressions
    if has_rows_of_query(node):
        return f"ARRAY({writer.write(items[0])})"
    first = struct_items(items[0]) if items else None
    if first is None:
        return f"[{', '.join(writer.write_all(items))}]"
    names = [struct_field_name(item) or f"_field_{i}" for i, item in enumerate(first, start=1)]
    return f"[{', '.join(_element_struct(writer, item, names) for item in items)}]"


def has_rows_of_query(node: exp.Array) -> bool:
    """Whether the array has all rows of a query: ARRAY(SELECT …). In brackets, [(SELECT …)] has one element."""
    items = node.expressions
    return len(items) == 1 and isinstance(items[0], exp.Query) and not node.args.get("value_constructor")


def _element_struct(writer: Writer, node: exp.Expr, names: list[str]) -> str:
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
    return struct_sql(writer, fields, names)
