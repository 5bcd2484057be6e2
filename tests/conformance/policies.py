"""Puts row access policies and policy tags on tables of a sandbox, and reads them."""

from __future__ import annotations

import pytest
from google.api_core.exceptions import Forbidden

from tests.conformance.sandbox import Sandbox


def add_policy(
    sandbox: Sandbox, table: str, policy: str, predicate: str, grantee: str = "allAuthenticatedUsers"
) -> None:
    """Add a row access policy that shows the grantee the rows for which `predicate` is true. `table`: its full name."""
    sandbox.query(f"CREATE ROW ACCESS POLICY {policy} ON `{table}` GRANT TO ('{grantee}') FILTER USING ({predicate})")


def row_policies(sandbox: Sandbox, table: str) -> list[str]:
    """The ids of the row access policies of the table with this full name."""
    listed = sandbox.rest(f"/tables/{table.split('.')[-1]}/rowAccessPolicies")
    return [policy["rowAccessPolicyReference"]["policyId"] for policy in listed.get("rowAccessPolicies", [])]


def named_policy_tag(sandbox: Sandbox) -> str:
    """The policy tag that the user has named. Skips the test without one."""
    if sandbox.servers.policy_tag is None:
        pytest.skip("add POLICY_TAG=projects/P/locations/L/taxonomies/T/policyTags/N")
    return sandbox.servers.policy_tag


def add_policy_tag(sandbox: Sandbox, table: str, column: str, tag: str) -> None:
    """Put the policy tag on a column. `table`: its name in the dataset."""
    fields = sandbox.fields(table).values()
    tagged = [{**field, "policyTags": {"names": [tag]}} if field["name"] == column else field for field in fields]
    sandbox.rest(f"/tables/{table}", "PATCH", {"schema": {"fields": tagged}})


def column_tags(sandbox: Sandbox, table: str) -> dict[str, list[str]]:
    """The policy tags of each column that has some."""
    fields = sandbox.client.get_table(table).schema
    return {field.name: list(field.policy_tags.names) for field in fields if field.policy_tags}


def may_read(sandbox: Sandbox, table: str, column: str) -> bool:
    """Whether this account is permitted to read the column."""
    try:
        sandbox.query(f"SELECT {column} FROM `{table}`")
    except Forbidden:
        return False
    return True
