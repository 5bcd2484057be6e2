"""Makes fields of the types and column definitions that SQLGlot has parsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.errors import ParseError

from bigquery_standin.bigquery_errors import Invalid, InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.dialect import STAND_IN
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import canonical_type, checked_parameters


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
    parameters = tuple(int(parameter.name) for parameter in kind.expressions if parameter.name.isdigit())
    try:
        type_name = canonical_type(exp.DataType(this=kind.this).sql(dialect="bigquery"))
        if len(parameters) != len(kind.expressions):
            raise Invalid(f"Parameters of type {type_name} are not whole numbers.")
        return TableField(name, type_name, parameters=checked_parameters(type_name, parameters))
    except Invalid as error:
        raise InvalidQuery(error.message) from error


def type_without_parameters(kind: exp.DataType, what: str) -> TableField:
    """The type of a variable or an argument (`what`).

    Raises NotImplementedConstruct for a parameterized type, such as STRING(10).
    """
    field = field_of(kind)
    if field.has_parameters:
        raise NotImplementedConstruct(f"parameterized type {field.sql_type(parameterized=True)} of {what}")
    return field


def _struct_fields(items: Sequence[exp.Expr]) -> tuple[TableField, ...]:
    return tuple(_struct_field(item, f"_field_{number}") for number, item in enumerate(items, start=1))


def _struct_field(item: exp.Expr, default_name: str) -> TableField:
    if isinstance(item, exp.ColumnDef):
        return _column(item, [])
    if not isinstance(item, exp.DataType) or item.find_ancestor(exp.Schema) is not None:
        raise InvalidQuery(f"Syntax error: A STRUCT of a column needs the name of each field: {item.sql('bigquery')}")
    return field_of(item, default_name)


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
        elif isinstance(kind, exp.Properties):
            column = replace(column, description=_description(kind, column.name))
        else:
            raise NotImplementedConstruct(f"column clause {constraint.sql('bigquery')} of {column.name}")
    return column


def _description(options: exp.Properties, column: str) -> str | None:
    description: str | None = None
    for option in options.expressions:
        value = option.args.get("value")
        if option.name.lower() != "description" or not isinstance(value, exp.Null | exp.Literal | exp.RawString):
            raise NotImplementedConstruct(f"column option {option.sql('bigquery')} of {column}")
        description = None if isinstance(value, exp.Null) else value.name
    return description


def _check_not_enforced(key: exp.PrimaryKey | exp.PrimaryKeyColumnConstraint) -> None:
    if key.args.get("options") != ["NOT ENFORCED"]:
        raise InvalidQuery("Syntax error: BigQuery has only keys that are NOT ENFORCED")
