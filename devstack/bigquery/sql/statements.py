"""What a script is made of: one frozen dataclass for each statement that the stand-in carries out.

The parser (`parser.py`) produces these, the executor consumes them. Expressions and queries stay SQLGlot trees
in the BigQuery dialect; everything around them (scripts, CLONE, OPTIONS, ASSERT) is ours, because SQLGlot keeps
those as opaque commands.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp


@dataclass(frozen=True)
class TableName:
    """A table as written: project and dataset may be left out and then come from the job's defaults."""

    table: str
    dataset: str | None = None
    project: str | None = None


@dataclass(frozen=True)
class ColumnSpec:
    """One column of a CREATE TABLE: `type_name` is INT64, STRING, …, STRUCT; `fields` only for STRUCT."""

    name: str
    type_name: str
    mode: str = "NULLABLE"  # NULLABLE, REQUIRED or REPEATED
    fields: tuple[ColumnSpec, ...] = ()
    description: str | None = None


@dataclass(frozen=True)
class PartitionSpec:
    """`PARTITION BY column` of a DATE column (the only partitioning that the stand-in carries out)."""

    column: str


Options = tuple[tuple[str, exp.Expression], ...]  # OPTIONS(name = expression, …) in written order


@dataclass(frozen=True)
class Declare:
    names: tuple[str, ...]
    type_name: str | None
    default: exp.Expression | None


@dataclass(frozen=True)
class SetVariable:
    names: tuple[str, ...]
    value: exp.Expression


@dataclass(frozen=True)
class If:
    branches: tuple[tuple[exp.Expression, tuple[Statement, ...]], ...]
    otherwise: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Assert:
    condition: exp.Expression
    message: str | None


@dataclass(frozen=True)
class CreateTable:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] with columns, or AS a query, or both."""

    name: TableName
    columns: tuple[ColumnSpec, ...] | None
    replace: bool = False
    if_not_exists: bool = False
    partition_by: PartitionSpec | None = None
    cluster_by: tuple[str, ...] = ()
    options: Options = ()
    query: exp.Expression | None = None


@dataclass(frozen=True)
class CreateClone:
    """CREATE [OR REPLACE] TABLE [IF NOT EXISTS] name CLONE source [FOR SYSTEM_TIME AS OF t] [OPTIONS(…)]."""

    name: TableName
    source: TableName
    replace: bool = False
    if_not_exists: bool = False
    system_time: exp.Expression | None = None
    options: Options = ()


@dataclass(frozen=True)
class AlterTableSetOptions:
    name: TableName
    options: Options
    if_exists: bool = False


@dataclass(frozen=True)
class DropTable:
    name: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class CreateRowPolicy:
    """CREATE [OR REPLACE] ROW ACCESS POLICY [IF NOT EXISTS] name ON table [GRANT TO (…)] FILTER USING (…).

    `text` is the predicate as written.
    """

    name: str
    table: TableName
    grantees: tuple[str, ...]
    predicate: exp.Expression
    text: str
    replace: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropRowPolicy:
    """DROP ROW ACCESS POLICY [IF EXISTS] name ON table; a `name` of None is DROP ALL ROW ACCESS POLICIES."""

    name: str | None
    table: TableName
    if_exists: bool = False


@dataclass(frozen=True)
class CreateSchema:
    name: str
    if_not_exists: bool = False
    options: Options = ()
    project: str | None = None


@dataclass(frozen=True)
class DropSchema:
    name: str
    if_exists: bool = False
    cascade: bool = False
    project: str | None = None


@dataclass(frozen=True)
class Insert:
    """INSERT [INTO] table [(columns)] VALUES … or a query; `source` is the SQLGlot query or VALUES tree."""

    table: TableName
    columns: tuple[str, ...]
    source: exp.Expression


@dataclass(frozen=True)
class Assignment:
    """`path = value` of SET; a path of several parts is a field of a STRUCT column."""

    path: tuple[str, ...]
    value: exp.Expression


@dataclass(frozen=True)
class Update:
    """UPDATE table [AS alias] SET … [FROM …] WHERE …; `source` is the FROM clause."""

    table: TableName
    alias: str
    assignments: tuple[Assignment, ...]
    where: exp.Expression
    source: exp.Select | None = None


@dataclass(frozen=True)
class Delete:
    """DELETE [FROM] table [AS alias] WHERE …."""

    table: TableName
    alias: str
    where: exp.Expression


@dataclass(frozen=True)
class MergeUpdate:
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True)
class MergeDelete:
    pass


@dataclass(frozen=True)
class MergeInsert:
    """`values` None is INSERT ROW; without `columns` all columns of the table are meant."""

    columns: tuple[str, ...]
    values: tuple[exp.Expression, ...] | None


MATCHED, NOT_MATCHED_BY_TARGET, NOT_MATCHED_BY_SOURCE = "MATCHED", "NOT MATCHED BY TARGET", "NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class MergeClause:
    """WHEN … [AND condition] THEN action; `kind` is one of the three above."""

    kind: str
    condition: exp.Expression | None
    action: MergeUpdate | MergeDelete | MergeInsert


@dataclass(frozen=True)
class Merge:
    """`source` is a SELECT of all columns of what USING names."""

    table: TableName
    alias: str
    source: exp.Select
    condition: exp.Expression
    clauses: tuple[MergeClause, ...]


@dataclass(frozen=True)
class TruncateTable:
    table: TableName


@dataclass(frozen=True)
class Query:
    """A SELECT (or WITH … SELECT, or a set operation)."""

    tree: exp.Expression


Statement = (
    Declare
    | SetVariable
    | If
    | Assert
    | CreateTable
    | CreateClone
    | AlterTableSetOptions
    | DropTable
    | CreateRowPolicy
    | DropRowPolicy
    | CreateSchema
    | DropSchema
    | Insert
    | Update
    | Delete
    | Merge
    | TruncateTable
    | Query
)


@dataclass(frozen=True)
class Script:
    """A whole job's text. `is_multi_statement` decides whether BigQuery would report a SCRIPT job."""

    statements: tuple[Statement, ...]
    text: str = field(default="", compare=False)

    @property
    def is_multi_statement(self) -> bool:
        return len(self.statements) != 1 or isinstance(self.statements[0], If | Declare | SetVariable)
