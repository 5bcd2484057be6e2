"""Refuses reads of rows and columns that a policy protects.

BigQuery returns the rows and columns that the caller may see. The stand-in has no identities, and returning everything
would ignore the policy. So any read of a table with a row access policy, or of a column with a policy tag, is refused
with the policy's name. Metadata requests, loads and clones return no rows and are allowed.
"""

from __future__ import annotations

from collections.abc import Collection

from devstack.bigquery.bigquery_errors import NotImplementedConstruct
from devstack.bigquery.storage.catalog import Catalog
from devstack.bigquery.storage.model import TableId, TableVersion


def refuse_protected_read(
    catalog: Catalog, table: TableId, version: TableVersion, columns: Collection[str] | None = None
) -> None:
    """Checks a read of these top-level columns (None: all). The current policies apply to older versions too."""
    for protected in (version, catalog.find(table)):
        if protected is not None:
            refuse_protected_rows(table, protected)
            refuse_protected_columns(table, protected, columns)


def refuse_protected_rows(table: TableId, version: TableVersion) -> None:
    policies = version.settings.row_policies
    if policies:
        raise NotImplementedConstruct(
            f"read of table {table} with row access policy {', '.join(policy.name for policy in policies)}"
        )


def refuse_protected_columns(table: TableId, version: TableVersion, columns: Collection[str] | None = None) -> None:
    for column in version.settings.schema:
        tag = column.first_policy_tag()
        if tag is not None and (columns is None or column.name in columns):
            raise NotImplementedConstruct(f"read of column {column.name} of table {table} with policy tag {tag}")
