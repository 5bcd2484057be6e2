"""Renders the statements in `sql/`. Jinja inserts validated identifiers only; values are query parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import Column, ColumnMode, nullable
from dedup_clone.warehouse.row_sql import (
    as_in_files,
    date_sql,
    key_text,
    null_conditions,
    partition_sql,
    quoted,
    row_text,
    value_expressions,
)

if TYPE_CHECKING:
    from jinja2 import Environment


@dataclass(frozen=True)
class TableNames:
    """The identifiers of a feed's tables in statements, such as `{{ names.target }}`. Settings have validated them.

    `staging_table` and the other names that end in `_table` are names in the dataset. `staging`, `incoming`, `changes`,
    `previous` and `target` are quoted, with project and dataset. `attempt`: see `of_attempt`.
    """

    project: str
    dataset: str
    staging_table: str
    target_table: str
    attempt: str = ""

    def of_attempt(self, attempt: str) -> TableNames:
        """The same names, with the attempt's own incoming table. The other names are those of all attempts."""
        return replace(self, attempt=attempt)

    @property
    def staging(self) -> str:
        return f"`{self.project}.{self.dataset}.{self.staging_table}`"

    @property
    def incoming_table(self) -> str:
        """The table into which an SQL engine loads the deliveries that it applies, or a rebuild copies live rows.

        Each attempt has its own, so that no task drops another attempt's. No feed's name has a hyphen, as this has.
        """
        return f"{self.target_table}_incoming_{self.attempt}"

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
    return f"{quoted(column.name)} {type_sql(column)}{' NOT NULL' if column.mode is ColumnMode.REQUIRED else ''}"


def type_sql(column: Column) -> str:
    """The type of the column in CREATE TABLE."""
    inner = column.type
    if column.fields:
        inner = f"STRUCT<{', '.join(column_sql(field) for field in column.fields)}>"
    return f"ARRAY<{inner}>" if column.mode is ColumnMode.REPEATED else inner


@cache
def environment(folder: Path) -> Environment:
    """What compiles each template below the folder once, so that the watchdog checks many feeds quickly."""
    import jinja2

    loader = jinja2.FileSystemLoader(folder)
    templates = jinja2.Environment(loader=loader, undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    for function in (
        *(column_sql, type_sql, quoted, nullable, as_in_files, date_sql, partition_sql),
        *(key_text, row_text, value_expressions, null_conditions),
    ):
        templates.globals[function.__name__] = function
    return templates


def render(folder: Path, name: str, *, names: TableNames, is_now: bool = False, **values: Any) -> str:
    """The statement in the file `folder/name`, for one feed. A variable that it uses and nobody gives is an error.

    `is_now`: see `staging_as_of`. `values`: the other variables of the statement, such as `table` (TableContract),
    `options` (OptionSettings) or `has_parent`: whether the generation has a parent, whose rows are in target.
    """
    template = environment(folder).get_template(name)
    return template.render(names=names, staging=staging_as_of(names, is_now=is_now), **values)


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
