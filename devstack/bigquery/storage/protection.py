"""Refuses to read what a policy protects: the stand-in knows no identities, so it cannot tell who may see what.

BigQuery would answer with the rows and columns that the caller may see. To answer with all of them would ignore the
policy; so whoever reads a table with a row access policy, or a column with a policy tag, is refused with its name.
Metadata, loads and clones read no row for a caller and work.
"""

from __future__ import annotations

from collections.abc import Collection

from devstack.bigquery.errors import NotImplementedConstruct
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import TableId, TableVersion


def refuse_protected_read(
    catalog: Catalog, table: TableId, version: TableVersion, columns: Collection[str] | None = None
) -> None:
    """A read of the version's rows, of these top-level columns (None: of all). Today's policies hold for the past."""
    today = catalog.find(table)
    for protected in (version, today):
        if protected is not None:
            refuse_protected_rows(table, protected)
            refuse_protected_columns(table, protected, columns)


def refuse_protected_rows(table: TableId, version: TableVersion) -> None:
    """Any read of the table's rows."""
    policies = version.settings.row_policies
    if policies:
        raise NotImplementedConstruct(
            f"read of table {table} with row access policy {', '.join(policy.name for policy in policies)}"
        )


def refuse_protected_columns(table: TableId, version: TableVersion, columns: Collection[str] | None = None) -> None:
    """A read of these top-level columns (None: of all)."""
    for column in version.settings.schema:
        tag = column.first_policy_tag()
        if tag is not None and (columns is None or column.name in columns):
            raise NotImplementedConstruct(f"read of column {column.name} of table {table} with policy tag {tag}")
