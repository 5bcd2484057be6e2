"""Reads row access policies, for which the client library has no methods, and whether they let this account clone.

All calls are free of charge.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from google.cloud.bigquery import Client, TableReference

# Two IAM permissions: to read the rows that a policy lets through, and to read a table with policies as of a past time.
READ_ROWS = "bigquery.rowAccessPolicies.getFilteredData"
READ_PAST = "bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"


def policy_id(policy: dict[str, Any]) -> str:
    return str(policy["rowAccessPolicyReference"]["policyId"])


def list_policies(client: Client, table: TableReference) -> Iterator[dict[str, Any]]:
    """The table's row access policies, as the REST API describes them."""
    page: dict[str, str] = {}
    while True:
        listed = _call(client, "GET", table, query_params=page)
        yield from listed.get("rowAccessPolicies", [])
        if not listed.get("nextPageToken"):
            return
        page = {"pageToken": listed["nextPageToken"]}


def describe_policies(client: Client, table: TableReference) -> dict[str, str]:
    """The filter of each row access policy of the table, and whom it lets read, by the policy's name."""
    policies = list_policies(client, table)
    return {policy_id(p): f"{p['filterPredicate']} for {_grantees(client, table, p)}" for p in policies}


def missing_access(client: Client, table: TableReference) -> list[str]:
    """What this account lacks to clone the table as of a past time, one text for each; empty if it may clone it.

    For a table without row access policies nothing is missing. BigQuery does not promise that its answers about
    permissions are exact: the clone may still fail because one is missing.
    """
    policies = list(list_policies(client, table))
    if not policies:
        return []
    missing, body = [], {"permissions": [READ_ROWS]}
    true_filters = [p for p in policies if p["filterPredicate"].strip(" ()").upper() == "TRUE"]
    answers = (_call(client, "POST", table, f"/{policy_id(p)}:testIamPermissions", data=body) for p in true_filters)
    if not any(READ_ROWS in answer.get("permissions", []) for answer in answers):
        missing.append("a row access policy FILTER USING (TRUE)")
    if READ_PAST not in client.test_iam_permissions(table, [READ_PAST]).get("permissions", []):
        missing.append(f"permission {READ_PAST}")
    return missing


def _grantees(client: Client, table: TableReference, policy: dict[str, Any]) -> str:
    """The members whom the row access policy lets read rows, in order. Only its IAM policy names them."""
    found = _call(client, "POST", table, f"/{policy_id(policy)}:getIamPolicy", data={})
    members = {member for binding in found.get("bindings", ()) for member in binding.get("members", ())}
    return ", ".join(sorted(members)) or "nobody"


def _call(client: Client, method: str, table: TableReference, path: str = "", **request: Any) -> Any:
    connection: Any = client._connection
    return connection.api_request(method=method, path=f"{table.path}/rowAccessPolicies{path}", **request)
