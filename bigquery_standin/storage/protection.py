"""Refuses reads that a table's row access policies, or the policy tags of its columns, deny to the caller.

Sources, in BigQuery's documentation: "Using row-level security with other BigQuery features", "Introduction to
column-level access control", and "Data retention with time travel and fail-safe", time travel and row-level access.
"""

from __future__ import annotations

from collections.abc import Collection

from bigquery_standin.bigquery_errors import AccessDenied, NotImplementedConstruct
from bigquery_standin.storage.callers import FINE_GRAINED_READ, OVERRIDE_TIME_TRAVEL, Caller
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import TableId, TableVersion


def check_read(
    caller: Caller, catalog: Catalog, table: TableId, version: TableVersion, columns: Collection[str] | None = None
) -> None:
    """Raises AccessDenied if the caller's query may not read one of these top-level columns (None: all) of a version.

    The table's current policies apply to older versions too. Of a table with row access policies BigQuery shows only
    the rows that the policies allow. The stand-in evaluates no filters: it raises NotImplementedConstruct if the
    policies do not allow the caller all rows.
    """
    for protected in _current_and(catalog, table, version):
        policies = protected.settings.row_policies
        if not caller.sees_all_rows(policies):
            names = ", ".join(policy.name for policy in policies)
            raise NotImplementedConstruct(f"read of table {table} with row access policy {names}")
        check_columns(caller, table, protected, columns)


def check_all_rows(caller: Caller, catalog: Catalog, table: TableId, version: TableVersion, operation: str) -> None:
    """Raises AccessDenied unless the caller may read all rows, which DML, copies, clones and `tabledata.list` need.

    `operation`: what needs all rows, for the error message.
    """
    for protected in _current_and(catalog, table, version):
        policies = protected.settings.row_policies
        if not caller.sees_all_rows(policies):
            raise AccessDenied(
                f"Access Denied: Table {table}: {operation} needs a row access policy on the table with the filter "
                f"TRUE that is granted to [{caller.member}]; it has [{', '.join(policy.name for policy in policies)}]."
            )


def check_columns(
    caller: Caller, table: TableId, version: TableVersion, columns: Collection[str] | None = None
) -> None:
    """Raises AccessDenied if a policy tag denies one of these top-level columns (None: all) to the caller."""
    for column in version.settings.schema:
        tag = column.first_policy_tag()
        if tag is not None and (columns is None or column.name in columns) and not caller.has(FINE_GRAINED_READ):
            raise AccessDenied(
                f"Access Denied: Table {table}: [{caller.member}] has no fine-grained read access to column "
                f"{column.name} of table {table} with policy tag {tag}."
            )


def check_time_travel(caller: Caller, catalog: Catalog, table: TableId, version: TableVersion) -> None:
    """Raises AccessDenied if the caller may not read earlier rows of a table that has or had row access policies."""
    for protected in _current_and(catalog, table, version):
        if protected.had_row_policies and not caller.has(OVERRIDE_TIME_TRAVEL):
            raise AccessDenied(
                f"Access Denied: Table {table}: it has or had row access policies, so [{caller.member}] needs "
                f"permission {OVERRIDE_TIME_TRAVEL} to read its past."
            )


def _current_and(catalog: Catalog, table: TableId, version: TableVersion) -> list[TableVersion]:
    """The version and, if it is an earlier one, the table's current version."""
    current = catalog.find(table)
    return [version] if current is None or current is version else [version, current]
