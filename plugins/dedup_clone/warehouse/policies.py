"""Reads a table's policies, and whether this account may clone a table that has row access policies.

The client library has no methods for row access policies, so this module calls the REST API, free of charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dedup_clone.warehouse.metadata import Policies

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, TableReference

# Two IAM permissions: to read the rows that a policy lets through, and to read a table with policies as of a past time.
READ_ROWS = "bigquery.rowAccessPolicies.getFilteredData"
READ_PAST = "bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"


def read_policies(client: Client, table: TableReference) -> Policies:
    """The table's row access policies and policy tags."""
    schema = client.get_table(table).schema
    return Policies(
        row_access=tuple(policy["rowAccessPolicyReference"]["policyId"] for policy in _row_policies(client, table)),
        column_tags={f.name: f.policy_tags.names[0] for f in schema if f.policy_tags and f.policy_tags.names},
    )


def read_row_policies(client: Client, table: TableReference) -> dict[str, str]:
    """The filter of each row access policy of the table, and whom it lets read, by the policy's name."""
    return {_id(p): f"{p['filterPredicate']} for {_grantees(client, table, p)}" for p in _row_policies(client, table)}


def missing_access(client: Client, table: TableReference) -> list[str]:
    """What this account lacks to clone the table as of a past time, one text for each; empty if it may clone it.

    For a table without row access policies nothing is missing. BigQuery does not promise that its answers about
    permissions are exact: the clone may still fail because one is missing.
    """
    policies = list(_row_policies(client, table))
    if not policies:
        return []
    missing = []
    true_filters = [p for p in policies if p["filterPredicate"].strip(" ()").upper() == "TRUE"]
    if not any(_is_permitted(client, f"{_path(table)}/{_id(policy)}", READ_ROWS) for policy in true_filters):
        missing.append("a row access policy FILTER USING (TRUE)")
    if READ_PAST not in client.test_iam_permissions(table, [READ_PAST]).get("permissions", []):
        missing.append(f"permission {READ_PAST}")
    return missing


def _row_policies(client: Client, table: TableReference) -> Iterator[dict[str, Any]]:
    page: dict[str, str] = {}
    while True:
        listed = _call(client)(method="GET", path=_path(table), query_params=page)
        yield from listed.get("rowAccessPolicies", [])
        if not listed.get("nextPageToken"):
            return
        page = {"pageToken": listed["nextPageToken"]}


def _grantees(client: Client, table: TableReference, policy: dict[str, Any]) -> str:
    """The members whom the row access policy lets read rows, in alphabetical order. Only its IAM policy names them."""
    found = _call(client)(method="POST", path=f"{_path(table)}/{_id(policy)}:getIamPolicy", data={})
    members = (member for binding in found.get("bindings", ()) for member in binding.get("members", ()))
    return ", ".join(sorted(set(members))) or "nobody"


def _is_permitted(client: Client, path: str, permission: str) -> bool:
    body = {"permissions": [permission]}
    return permission in _call(client)(method="POST", path=f"{path}:testIamPermissions", data=body).get(
        "permissions", []
    )


def _id(policy: dict[str, Any]) -> str:
    return str(policy["rowAccessPolicyReference"]["policyId"])


def _path(table: TableReference) -> str:
    return f"{table.path}/rowAccessPolicies"


def _call(client: Client) -> Any:
    return client._connection.api_request
