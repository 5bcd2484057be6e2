"""Applies BigQuery's rules for a table's row access policies.

Sources, in BigQuery's documentation: "Use row-level security"; REST resource rowAccessPolicies.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bigquery_standin.bigquery_errors import Duplicate, Invalid, NotFound
from bigquery_standin.storage.model import RowPolicy, TableId

_NAME = re.compile(r"\w{1,256}", re.ASCII)
_GRANTEE = re.compile(r"(?:user|serviceAccount|group|domain|principal|principalSet):\S+|allUsers|allAuthenticatedUsers")

Policies = tuple[RowPolicy, ...]


def policy_reference(table: TableId, name: str) -> dict[str, str]:
    """The API's RowAccessPolicyReference."""
    return {**table.to_api(), "policyId": name}


def check_policy(name: str, grantees: Sequence[str]) -> None:
    """Raises Invalid for a name or grantee that BigQuery would refuse."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"Row access policy id [{name}] is not valid, expected [1 to 256 letters, digits and underscores]."
        )
    for grantee in grantees:
        if not _GRANTEE.fullmatch(grantee):
            raise Invalid(
                f"Grantee [{grantee}] of row access policy [{name}] is not valid, expected [user:EMAIL, "
                "serviceAccount:EMAIL, group:EMAIL, domain:NAME, allAuthenticatedUsers or allUsers]."
            )


def find_policy(policies: Policies, name: str) -> RowPolicy | None:
    return next((policy for policy in policies if policy.name == name), None)


def get_policy(table: TableId, policies: Policies, name: str) -> RowPolicy:
    """Raises NotFound if the table has no policy of this name."""
    policy = find_policy(policies, name)
    if policy is None:
        raise NotFound(f"Not found: Row access policy {name} on table {table}")
    return policy


def with_policy(table: TableId, policies: Policies, new: RowPolicy) -> Policies:
    """The policies with `new` added. Raises Duplicate if there is one of the same name."""
    if find_policy(policies, new.name) is not None:
        raise Duplicate(f"Already Exists: Row access policy {new.name} on table {table}")
    return (*policies, new)
