"""Makes statements from the trees to which SQLGlot parses CREATE TABLE, ALTER TABLE and DROP."""

from __future__ import annotations

from sqlglot import exp

from bigquery_standin.bigquery_errors import InvalidQuery, NotImplementedConstruct
from bigquery_standin.sql.ddl_options import options_of
from bigquery_standin.sql.statements import (
    AlterColumn,
    AlterTableSetOptions,
    CreateTable,
    DropProcedure,
    DropTable,
)
from bigquery_standin.sql.syntax import refuse_arguments
from bigquery_standin.sql.table_names import table_name_of
from bigquery_standin.sql.transpile import check
from bigquery_standin.sql.type_parser import columns_of, field_of

_LAYOUT = (exp.PartitionedByProperty, exp.ClusterProperty)


def create_table(tree: exp.Create) -> CreateTable:
    """Raises NotImplementedConstruct for unsupported clauses and other objects. Its layout is checked when it runs."""
    if tree.kind != "TABLE":
        raise NotImplementedConstruct(f"CREATE {tree.kind}")
    refuse_arguments(tree, "this kind replace exists properties expression")
    schema = tree.this if isinstance(tree.this, exp.Schema) else None
    columns, primary_key = (None, ()) if schema is None else columns_of(schema)
    properties = tree.args["properties"].expressions if tree.args.get("properties") else []
    query = tree.args.get("expression")
    if query is not None:
        check(query)
    if query is None and columns is None:
        raise InvalidQuery("Syntax error: Expected a column list, AS query or CLONE")
    return CreateTable(
        table_name_of(tree.this if schema is None else schema.this),
        columns,
        bool(tree.args.get("replace")),
        bool(tree.args.get("exists")),
        *_partitioning(properties),
        _clustering_columns(properties),
        options_of([item for item in properties if not isinstance(item, _LAYOUT)], "table"),
        query,
        primary_key,
    )


def _partitioning(properties: list[exp.Expr]) -> tuple[str | None, bool]:
    """The column, and whether its months are the partitions; else its days are."""
    found = [item.this for item in properties if isinstance(item, exp.PartitionedByProperty)]
    if not found:
        return None, False
    column, by_month = found[0], False
    if isinstance(column, exp.Anonymous) and column.name.upper() == "DATE_TRUNC":
        column, unit = column.expressions
        by_month = unit.name.upper() == "MONTH"
    if not isinstance(column, exp.Identifier | exp.Column) or (column is not found[0] and not by_month):
        raise NotImplementedConstruct(f"PARTITION BY {found[0].sql('bigquery')}")
    return str(column.name), by_month


def _clustering_columns(properties: list[exp.Expr]) -> tuple[str, ...]:
    items = [column for item in properties if isinstance(item, exp.ClusterProperty) for column in item.expressions]
    if not all(isinstance(item, exp.Column) and len(item.parts) == 1 for item in items):
        raise NotImplementedConstruct("CLUSTER BY anything but top-level columns")
    return tuple(item.name for item in items)


def alter_table(tree: exp.Alter) -> AlterTableSetOptions | AlterColumn:
    """ALTER TABLE with SET OPTIONS or one ALTER COLUMN. Raises NotImplementedConstruct for other actions."""
    name, if_exists = table_name_of(tree.this), bool(tree.args.get("exists"))
    actions = tree.args["actions"]
    action = actions[0]
    if tree.kind != "TABLE" or len(actions) > 1:
        raise NotImplementedConstruct(f"ALTER {tree.kind} with [{len(actions)}] actions")
    if isinstance(action, exp.AlterSet):
        (options,) = action.expressions
        return AlterTableSetOptions(name, options_of(options.expressions, "table"), if_exists)
    if not isinstance(action, exp.AlterColumn):
        raise NotImplementedConstruct(f"ALTER TABLE {action.sql('bigquery')}")
    kind = action.args.get("dtype")
    if kind is None:
        raise NotImplementedConstruct(f"ALTER TABLE {action.sql('bigquery')}")
    refuse_arguments(action, "this exists dtype")
    return AlterColumn(name, action.name, field_of(kind, action.name), if_exists, bool(action.args.get("exists")))


def drop(tree: exp.Drop) -> DropTable | DropProcedure:
    """DROP TABLE and DROP PROCEDURE. Raises NotImplementedConstruct for other objects."""
    refuse_arguments(tree, "exists tables kind")
    if tree.kind not in ("TABLE", "PROCEDURE") or len(tree.args["tables"]) != 1:
        raise NotImplementedConstruct(f"DROP {tree.kind}")
    make = DropTable if tree.kind == "TABLE" else DropProcedure
    return make(table_name_of(tree.args["tables"][0]), bool(tree.args.get("exists")))
