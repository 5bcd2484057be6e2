"""Makes fields and names of the types, column definitions and paths that SQLGlot has parsed.

Names of tables, datasets and INFORMATION_SCHEMA views may be quoted as a whole or in parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.errors import ParseError

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import canonical_type, parameters_from_sql
from bigquery_standin.sql.syntax import STAND_IN


def field_of_type(text: str) -> TableField:
    """A field without a name that has the type in the SQL text, such as `ARRAY<INT64>`."""
    try:
        return field_of(exp.DataType.build(text, dialect=STAND_IN))
    except ParseError as error:
        raise InvalidQuery(f"Type not found: {text}") from error


def field_of(kind: exp.DataType, name: str = "") -> TableField:
    """The field `name` of a type. Raises InvalidQuery for no type of BigQuery, NotImplementedConstruct for others."""
    if kind.this is exp.DType.ARRAY:
        element = field_of(kind.expressions[0], name) if len(kind.expressions) == 1 else None
        if element is None or element.mode == "REPEATED":
            raise InvalidQuery("An ARRAY has one element type, which is no ARRAY, as in ARRAY<INT64>")
        return replace(element, mode="REPEATED")
    if kind.this is exp.DType.STRUCT:
        if not kind.expressions:
            raise InvalidQuery("A STRUCT has fields, as in STRUCT<a INT64>")
        return TableField(name, "STRUCT", fields=_struct_fields(kind.expressions))
    type_name = canonical_type(exp.DataType(this=kind.this).sql(dialect="bigquery"))
    values = [parameter.name for parameter in kind.expressions]
    return TableField(name, type_name, parameters=parameters_from_sql(type_name, values))


def type_without_parameters(kind: exp.DataType, what: str) -> TableField:
    """The type of a variable or an argument (`what`).

    Raises NotImplementedConstruct for a parameterized type, such as STRING(10).
    """
    field = field_of(kind)
    if field.has_parameters:
        raise NotImplementedConstruct(f"parameterized type {field.sql_type(parameterized=True)} of {what}")
    return field


def _struct_fields(items: Sequence[exp.Expr]) -> tuple[TableField, ...]:
    fields = []
    for item in items:
        if not isinstance(item, exp.ColumnDef):
            raise NotImplementedConstruct(f"STRUCT with a field without a name: {item.sql('bigquery')}")
        fields.append(_column(item, []))
    return tuple(fields)


def columns_of(schema: exp.Schema) -> tuple[tuple[TableField, ...], tuple[str, ...]]:
    """The columns and the primary key of `(name type …, …, PRIMARY KEY (name, …) NOT ENFORCED)`."""
    columns: list[TableField] = []
    keys: list[tuple[str, ...]] = []
    for item in schema.expressions:
        if isinstance(item, exp.PrimaryKey):
            _check_not_enforced(item)
            keys.append(tuple(column.name for column in item.expressions))
        elif isinstance(item, exp.ColumnDef) and item.args.get("kind") is not None:
            columns.append(_column(item, keys))
        else:
            raise NotImplementedConstruct(f"{item.sql('bigquery')} in a list of columns")
    if len(keys) > 1:
        raise InvalidQuery("CREATE TABLE has more than one PRIMARY KEY")
    return tuple(columns), keys[0] if keys else ()


def _column(definition: exp.ColumnDef, keys: list[tuple[str, ...]]) -> TableField:
    """A column or a field of a STRUCT. If it is declared as the primary key, that key is added to `keys`."""
    column = field_of(definition.args["kind"], definition.name)
    for constraint in definition.args.get("constraints") or []:
        kind = constraint.kind
        if isinstance(kind, exp.PrimaryKeyColumnConstraint) and isinstance(definition.parent, exp.Schema):
            _check_not_enforced(kind)
            keys.append((column.name,))
        elif isinstance(kind, exp.NotNullColumnConstraint) and not kind.args.get("allow_null"):
            if column.mode == "REPEATED":
                raise InvalidQuery(f"NOT NULL cannot be applied to ARRAY field: {column.name}")
            column = replace(column, mode="REQUIRED")
        else:
            raise NotImplementedConstruct(f"column clause {constraint.sql('bigquery')} of {column.name}")
    return column


def _check_not_enforced(key: exp.PrimaryKey | exp.PrimaryKeyColumnConstraint) -> None:
    if key.args.get("options") != ["NOT ENFORCED"]:
        raise InvalidQuery("Syntax error: BigQuery has only keys that are NOT ENFORCED")


INFORMATION_SCHEMA = "INFORMATION_SCHEMA"
REGION_PREFIX = "region-"
REGIONAL_VIEWS = ("JOBS",)  # their dataset is a region, such as `region-us`
_TABLE = re.compile(r"[\w\- ]{1,1024}\Z")
_DATASET = re.compile(r"\w{1,1024}\Z")
_PROJECT = re.compile(r"(?:[a-z0-9.\-]+:)?[a-z][a-z0-9\-]*\Z")


@dataclass(frozen=True)
class TableName:
    """A table name as written. A missing project is the job's."""

    table: str
    dataset: str | None = None
    project: str | None = None


def table_name_of(node: exp.Table) -> TableName:
    """The name of a table, an INFORMATION_SCHEMA view or a procedure.

    Raises InvalidQuery for a wrong name and for a partition decorator, NotImplementedConstruct for a table function, a
    wildcard table, and an unsupported path to an INFORMATION_SCHEMA view.
    """
    identifiers = [part for part in node.parts if isinstance(part, exp.Identifier)]
    if len(identifiers) != len(node.parts):
        raise NotImplementedConstruct(f"table function {node.this.name.upper()}")
    parts = [piece for part in identifiers for piece in part.name.split(".")]
    path, upper = ".".join(parts), [part.upper() for part in parts]
    if INFORMATION_SCHEMA in upper:
        return _information_schema(parts, upper.index(INFORMATION_SCHEMA))
    if parts[-1].endswith("*"):
        raise NotImplementedConstruct(f"wildcard table {path}")
    if "$" in parts[-1]:
        raise InvalidQuery(
            f"Table name [{path}] has a partition decorator, which SQL does not accept: filter on the partition column."
        )
    valid = len(parts) <= 3 and _TABLE.match(parts[-1]) and (len(parts) < 2 or _DATASET.match(parts[-2]))
    if not valid or (len(parts) == 3 and not _PROJECT.match(parts[0])):
        raise InvalidQuery(f"Invalid table name [{path}]: expected [PROJECT.]DATASET.TABLE or a part of it")
    padded: list[str | None] = [None] * (3 - len(parts)) + list(parts)
    return TableName(str(padded[2]), padded[1], padded[0])


def _information_schema(parts: list[str], at: int) -> TableName:
    """The name of a view: its `table` is `INFORMATION_SCHEMA.VIEW`, its `dataset` a dataset or a region.

    `at`: which part is INFORMATION_SCHEMA, from 0.
    """
    view = ".".join(part.upper() for part in parts[at:])
    is_regional = at > 0 and parts[at - 1].lower().startswith(REGION_PREFIX)
    if at == 0 or len(parts) - at != 2 or at > 2 or is_regional != (parts[-1].upper() in REGIONAL_VIEWS):
        raise NotImplementedConstruct(
            f"{'.'.join(parts)} (only DATASET.INFORMATION_SCHEMA.VIEW, and {', '.join(REGIONAL_VIEWS)} of a region)"
        )
    return TableName(view, parts[at - 1], parts[0] if at == 2 else None)
