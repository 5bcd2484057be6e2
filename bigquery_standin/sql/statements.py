"""Defines the syntax tree of a script: one frozen dataclass for each supported statement.

`statement_parser.py` makes the trees and `jobs/` executes them. Expressions and queries inside them are SQLGlot trees.
An UPDATE, DELETE or MERGE as a whole is one, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from bigquery_standin.sql.field_types import TableField


@dataclass(frozen=True)
class TableName:
    """A table name as written. A missing project is the job's."""

    table: str
    dataset: str | None = None
    project: str | None = None


Options = tuple[tuple[str, exp.Expression], ...]  # OPTIONS(name = expression, …) in the order of the text


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
class CreateTable:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] with columns or AS a query; or a VIEW, which has only a query.

    `view`: the text of a view's query; None for a table.
    """

    name: TableName
    columns: tuple[TableField, ...] | None  # None without a column list
    replace: bool = False
    if_not_exists: bool = False
    partition_by: str | None = None  # a DATE column
    by_month: bool = False  # else by day
    cluster_by: tuple[str, ...] = ()
    options: Options = ()
    query: exp.Expression | None = None
    primary_key: tuple[str, ...] = ()
    view: str | None = None


@dataclass(frozen=True)
class CreateClone:
    """CREATE [OR REPLACE] TABLE name CLONE source [FOR SYSTEM_TIME AS OF t] [OPTIONS(…)]."""

    name: TableName
    source: TableName
    replace: bool = False
    system_time: exp.Expression | None = None
    options: Options = ()


@dataclass(frozen=True)
class AlterTableSetOptions:
    name: TableName
    options: Options


@dataclass(frozen=True)
class AlterColumn:
    """ALTER TABLE … ALTER COLUMN … SET DATA TYPE `new_type`."""

    name: TableName
    column: str
    new_type: TableField


@dataclass(frozen=True)
class DropTable:
    name: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class CreateRowPolicy:
    """CREATE ROW ACCESS POLICY name ON table [GRANT TO (…)] FILTER USING (…). `text` is the predicate as written."""

    name: str
    table: TableName
    grantees: tuple[str, ...]
    predicate: exp.Expression
    text: str


@dataclass(frozen=True)
class DropRowPolicies:
    """DROP ALL ROW ACCESS POLICIES ON table."""

    table: TableName


@dataclass(frozen=True)
class UndropSchema:
    """UNDROP SCHEMA [project.]name [OPTIONS (location = …)]."""

    name: str
    options: Options = ()
    project: str | None = None


@dataclass(frozen=True)
class Insert:
    """INSERT [INTO] table [(columns)] VALUES … or a query. `source` is the tree of the query or of VALUES."""

    table: TableName
    columns: tuple[str, ...]
    source: exp.Expression


@dataclass(frozen=True)
class Mutation:
    """UPDATE, DELETE or MERGE, which BigQuery queues per table.

    `tree`: SQLGlot's node, whose INSERTs in a MERGE `parsed_statements.py` has simplified. `alias`: the table's name if
    no alias is written.
    """

    tree: exp.Update | exp.Delete | exp.Merge
    table: TableName
    alias: str

    @property
    def kind(self) -> str:
        return self.tree.key.upper()

    @property
    def where(self) -> exp.Expression:
        """The condition of an UPDATE or DELETE."""
        condition: exp.Expression = self.tree.args["where"].this
        return condition

    @property
    def clauses(self) -> list[exp.When]:
        """The WHEN clauses of a MERGE."""
        return list(self.tree.args["whens"].expressions)


MATCHED, NOT_MATCHED_BY_TARGET, NOT_MATCHED_BY_SOURCE = "MATCHED", "NOT MATCHED BY TARGET", "NOT MATCHED BY SOURCE"


def clause_kind(when: exp.When) -> str:
    """MATCHED, NOT_MATCHED_BY_TARGET or NOT_MATCHED_BY_SOURCE."""
    if when.args["matched"]:
        return MATCHED
    return NOT_MATCHED_BY_SOURCE if when.args.get("source") else NOT_MATCHED_BY_TARGET


@dataclass(frozen=True)
class TruncateTable:
    table: TableName


@dataclass(frozen=True)
class Query:
    """A SELECT (or WITH … SELECT, or a set operation)."""

    tree: exp.Expression


@dataclass(frozen=True)
class ProcedureParameter:
    """An IN parameter of a procedure. `type_name` is its type as SQL text."""

    name: str
    type_name: str


@dataclass(frozen=True)
class CreateProcedure:
    """CREATE [OR REPLACE] PROCEDURE name(…) WITH CONNECTION … OPTIONS(…) LANGUAGE PYTHON [AS code]."""

    name: TableName
    parameters: tuple[ProcedureParameter, ...]
    connection: tuple[str, str, str]  # project, location, id
    options: Options
    code: str | None = None
    replace: bool = False


@dataclass(frozen=True)
class Call:
    """CALL procedure(argument, …)."""

    name: TableName
    arguments: tuple[exp.Expression, ...]


Statement = (
    Declare
    | If
    | Assert
    | CreateTable
    | CreateClone
    | AlterTableSetOptions
    | AlterColumn
    | DropTable
    | CreateRowPolicy
    | DropRowPolicies
    | UndropSchema
    | Insert
    | Mutation
    | TruncateTable
    | CreateProcedure
    | Call
    | Query
)


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
