"""Defines what a script consists of: SQLGlot's nodes, and a frozen dataclass for each statement that has none.

`statement_parser.py` parses them, `statement_checks.py` refuses what is not supported in a node, and `jobs/` executes
them. Expressions and queries inside them are nodes, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from bigquery_standin.bigquery_errors import NotImplementedConstruct
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.type_parser import TableName, columns_of, table_name_of

Query = exp.Select | exp.SetOperation | exp.Subquery
Mutation = exp.Update | exp.Delete | exp.Merge  # BigQuery queues them per table
DmlStatement = exp.Insert | Mutation
QUERY_TEXT = "query text"  # of a view as it is written, in the `meta` of its CREATE


def target_of(tree: exp.Expr) -> TableName:
    """The table that a statement creates, changes or drops."""
    match tree:
        case exp.Drop():
            (target,) = tree.args["tables"]
        case exp.TruncateTable():
            (target,) = tree.expressions
        case _:
            target = tree.this
    return table_name_of(target.this if isinstance(target, exp.Schema) else target)


def changed_table(statement: Statement) -> TableName | None:
    """The table that a statement creates, changes or drops, if it names one."""
    match statement:
        case CreateClone():
            return statement.name
        case CreateRowPolicy() | DropRowPolicies():
            return statement.table
        case exp.Query():
            return None
        case exp.Expr():
            return target_of(statement)
        case _:
            return None


def declared_columns(tree: exp.Create) -> tuple[tuple[TableField, ...], tuple[str, ...]]:
    """The columns and the primary key of a CREATE; both are empty without a list of columns."""
    return columns_of(tree.this) if isinstance(tree.this, exp.Schema) else ((), ())


_LAYOUT = (exp.PartitionedByProperty, exp.ClusterProperty)


def _properties(tree: exp.Create, *kinds: type[exp.Expr]) -> list[exp.Expr]:
    properties = tree.args.get("properties")
    return [item for item in properties.expressions if isinstance(item, kinds)] if properties else []


def options_of(tree: exp.Create) -> Sequence[exp.Expr]:
    """The properties in OPTIONS(…), and unsupported other ones."""
    return [item for item in _properties(tree, exp.Expr) if not isinstance(item, _LAYOUT)]


# By function: the type of the partitioning column, and the units of partitions. Source: "CREATE TABLE statement".
_TRUNCATIONS = {
    "DATE_TRUNC": ("DATE", ("MONTH",)),
    "DATETIME_TRUNC": ("DATETIME", ("HOUR", "DAY", "MONTH")),
    "TIMESTAMP_TRUNC": ("TIMESTAMP", ("HOUR", "DAY", "MONTH")),
}


def partitioning_of(tree: exp.Create) -> tuple[str | None, str, str]:
    """The column, the time span of a partition (HOUR, DAY or MONTH), and the type that the column must have."""
    found = [item.this for item in _properties(tree, exp.PartitionedByProperty)]
    if not found:
        return None, "DAY", "DATE"
    column, unit, of_type = found[0], "DAY", "DATE"
    if isinstance(column, exp.Anonymous) and column.name.upper() in _TRUNCATIONS and len(column.expressions) == 2:
        of_type, units = _TRUNCATIONS[column.name.upper()]
        unit = column.expressions[1].name.upper()
        column = column.expressions[0] if unit in units else column
    if not isinstance(column, exp.Identifier | exp.Column):
        raise NotImplementedConstruct(f"PARTITION BY {found[0].sql('bigquery')}")
    return str(column.name), unit, of_type


def clustering_of(tree: exp.Create) -> tuple[str, ...]:
    """The columns of CLUSTER BY."""
    items = [column for item in _properties(tree, exp.ClusterProperty) for column in item.expressions]
    if not all(isinstance(item, exp.Column) and len(item.parts) == 1 for item in items):
        raise NotImplementedConstruct("CLUSTER BY anything but top-level columns")
    return tuple(item.name for item in items)


def columns_of_insert(tree: exp.Insert) -> tuple[str, ...]:
    """Empty without a list of columns."""
    return tuple(column.name for column in tree.this.expressions) if isinstance(tree.this, exp.Schema) else ()


def alias_of(tree: exp.Expr) -> str:
    """The name by which the statement's expressions refer to its target."""
    return str(tree.this.alias or target_of(tree).table)


def where_of(tree: Mutation) -> exp.Expression:
    """The condition of an UPDATE or DELETE."""
    condition: exp.Expression = tree.args["where"].this
    return condition


MATCHED, NOT_MATCHED_BY_TARGET, NOT_MATCHED_BY_SOURCE = "MATCHED", "NOT MATCHED BY TARGET", "NOT MATCHED BY SOURCE"


def clauses_of(tree: Mutation) -> Sequence[exp.When]:
    """The WHEN clauses of a MERGE."""
    clauses: Sequence[exp.When] = tree.args["whens"].expressions
    return clauses


def clause_kind(when: exp.When) -> str:
    """MATCHED, NOT_MATCHED_BY_TARGET or NOT_MATCHED_BY_SOURCE."""
    if when.args["matched"]:
        return MATCHED
    return NOT_MATCHED_BY_SOURCE if when.args.get("source") else NOT_MATCHED_BY_TARGET


@dataclass(frozen=True)
class Declare:
    names: tuple[str, ...]
    type: TableField  # a field without a name
    default: exp.Expression | None


@dataclass(frozen=True)
class If:
    condition: exp.Expression
    then: tuple[Statement, ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Assert:
    condition: exp.Expression
    message: str | None


@dataclass(frozen=True)
class CreateClone:
    """CREATE [OR REPLACE] TABLE name CLONE source [FOR SYSTEM_TIME AS OF t] [OPTIONS(…)]."""

    name: TableName
    source: TableName
    replace: bool
    system_time: exp.Expression | None
    options: Sequence[exp.Property]


@dataclass(frozen=True)
class CreateRowPolicy:
    """CREATE ROW ACCESS POLICY name ON table [GRANT TO (…)] FILTER USING (…). `text` is the predicate as written."""

    name: str
    table: TableName
    grantees: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class DropRowPolicies:
    """DROP ALL ROW ACCESS POLICIES ON table."""

    table: TableName


@dataclass(frozen=True)
class CreateProcedure:
    """CREATE [OR REPLACE] PROCEDURE name(…) WITH CONNECTION … OPTIONS(…) LANGUAGE PYTHON."""

    name: TableName
    parameters: tuple[tuple[str, str], ...]  # of each its name, and its type as SQL text
    connection: str  # project.location.id
    options: Sequence[exp.Property]
    replace: bool


@dataclass(frozen=True)
class Call:
    """CALL procedure(argument, …)."""

    name: TableName
    arguments: tuple[exp.Expression, ...]


Statement = exp.Expr | Declare | If | Assert | CreateClone | CreateRowPolicy | DropRowPolicies | CreateProcedure | Call


@dataclass(frozen=True)
class Script:
    """The whole text of a job.

    `is_script`: whether BigQuery calls the job a SCRIPT, as it does for several statements, and for a single IF,
    DECLARE or CALL.
    """

    statements: tuple[Statement, ...]

    @property
    def is_script(self) -> bool:
        return len(self.statements) != 1 or isinstance(self.statements[0], If | Declare | Call)
