"""Renders the statements in `sql/`. Jinja inserts validated identifiers only; values are query parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from dedup_clone.contract.engine import SqlForm
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, ColumnMode, TableContract, nullable
from dedup_clone.settings.table_settings import NO_OPTIONS, OptionSettings
from dedup_clone.warehouse.row_sql import as_in_files, key_text, null_conditions, quoted, row_text, value_expressions

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True)
class TableNames:
    """The identifiers of a feed's tables in statements, such as `{{ names.target }}`. Settings have validated them.

    `staging_table` and the other names that end in `_table` are names in the dataset. `staging`, `incoming`, `changes`,
    `previous` and `target` are quoted, with project and dataset.
    """

    project: str
    dataset: str
    staging_table: str
    target_table: str

    @property
    def staging(self) -> str:
        return f"`{self.project}.{self.dataset}.{self.staging_table}`"

    @property
    def incoming_table(self) -> str:
        """The table into which an SQL engine loads the deliveries that it applies, or a rebuild copies live rows."""
        return f"{self.target_table}_incoming"

    @property
    def incoming(self) -> str:
        return f"`{self.project}.{self.dataset}.{self.incoming_table}`"

    @property
    def changes_table(self) -> str:
        """The table of the rows by which each publish differs from the one before."""
        return f"{self.target_table}_changes"

    @property
    def changes(self) -> str:
        return f"`{self.project}.{self.dataset}.{self.changes_table}`"

    @property
    def previous_table(self) -> str:
        """A clone of the table that the last swap replaced, if the feed file asks for it."""
        return f"{self.target_table}_previous"

    @property
    def previous(self) -> str:
        return f"`{self.project}.{self.dataset}.{self.previous_table}`"

    @property
    def target(self) -> str:
        return f"`{self.project}.{self.dataset}.{self.target_table}`"

    def information_schema(self, view: str) -> str:
        return f"`{self.project}.{self.dataset}`.INFORMATION_SCHEMA.{view}"


def column_sql(column: Column) -> str:
    """`name TYPE` for CREATE TABLE, nested types included."""
    return f"{quoted(column.name)} {_type_sql(column)}{' NOT NULL' if column.mode is ColumnMode.REQUIRED else ''}"


def _type_sql(column: Column) -> str:
    inner = column.type
    if column.fields:
        inner = f"STRUCT<{', '.join(column_sql(field) for field in column.fields)}>"
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner


@cache
def environment(folder: Path) -> Environment:
    """What compiles each template below the folder once, so that the watchdog checks many feeds quickly."""
    import jinja2

    loader = jinja2.FileSystemLoader(folder)
    return jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)


def render(
    folder: Path,
    name: str,
    *,
    names: TableNames,
    table: TableContract | None = None,
    has_parent: bool = True,
    form: SqlForm = SqlForm.QUALIFY,
    options: OptionSettings = NO_OPTIONS,
    column: Column | None = None,
    sources: Sequence[tuple[Column, Column | None]] = (),
    is_now: bool = False,
    expected: str = "",
    previous_days: int = 0,
) -> str:
    """The statement in the file `folder/name`, for one feed. A variable that is not defined below is an error.

    `has_parent`: whether the generation has a parent, whose rows are in target. `form`: how engine `bigquery` chooses
    rows. `options`: target's options. `column`: the column that the statement changes. `sources`: each column of a
    copied table, with the column from which it is copied; None for a new column. `is_now`: see `staging_as_of`.
    `expected`: the quoted table with which target is compared; empty for published files. `previous_days`: how long a
    clone of the table that a swap replaces is kept; 0 for none.
    """
    template = environment(folder).get_template(name)
    return template.render(
        names=names,
        staging=staging_as_of(names, is_now=is_now),
        table=table,
        has_parent=has_parent,
        form=form,
        options=options,
        column=column,
        sources=sources,
        column_sql=column_sql,
        type_sql=_type_sql,
        nullable=nullable,
        quoted=quoted,
        value_expressions=value_expressions,
        key_text=key_text,
        null_conditions=null_conditions,
        row_text=row_text,
        as_in_files=as_in_files,
        expected=expected,
        previous_days=previous_days,
    )


def staging_as_of(names: TableNames, *, is_now: bool) -> str:
    """A subquery of staging as of the query parameter `checked_at`; with `is_now`, of staging as it is now.

    A subquery, because a query may give it an alias, and FOR SYSTEM_TIME must follow a table's alias.
    """
    return f"(SELECT * FROM {names.staging}{'' if is_now else ' FOR SYSTEM_TIME AS OF @checked_at'})"


def render_query(query: str, *, name: str, names: TableNames, is_now: bool = False) -> str:
    """The query of SQL check `name` with `staging_as_of` in place of `{{ staging }}`.

    Raises ConfigurationError if the query uses any other variable, or is no valid template.
    """
    import jinja2

    template = jinja2.Environment(undefined=jinja2.StrictUndefined)
    try:
        return template.from_string(query).render(staging=staging_as_of(names, is_now=is_now))
    except jinja2.TemplateError as error:
        raise ConfigurationError(
            f"SQL check [{name}]: {error}. A query may use {{{{ staging }}}} only: correct the query's file."
        ) from error
