"""Identifies the caller of a request, and stores which permissions callers have beyond those of a dataset's owner.

Every caller has the permissions of roles/bigquery.dataOwner and roles/bigquery.jobUser. The stand-in enforces
permissions that these roles lack: reading the past of a table that has or had row access policies, reading columns
with a policy tag, and using connections. Source: Google's page "BigQuery IAM roles and permissions".
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bigquery_standin.bigquery_errors import Invalid
from bigquery_standin.durable_files import write_durably
from bigquery_standin.storage.model import RowPolicy

OVERRIDE_TIME_TRAVEL = "bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"
FINE_GRAINED_READ = "datacatalog.categories.fineGrainedGet"
DELEGATE_CONNECTION = "bigquery.connections.delegate"  # to create a procedure for Spark with a connection
USE_CONNECTION = "bigquery.connections.use"  # to call such a procedure
PERMISSIONS = (DELEGATE_CONNECTION, FINE_GRAINED_READ, OVERRIDE_TIME_TRAVEL, USE_CONNECTION)
DEFAULT_USER = "stand-in@local.invalid"  # of a request without a token, or with a token that is no email address
_SERVICE_ACCOUNT_SUFFIX = ".gserviceaccount.com"


class Grants:
    """Which caller has which of `PERMISSIONS`. The grants are stored, and survive a restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._grants = frozenset(map(tuple, json.loads(path.read_bytes()))) if path.exists() else frozenset()

    def add(self, member: str, permission: str) -> None:
        """`member`: the caller, as `Caller.member` names it. Raises Invalid for a permission not in `PERMISSIONS`."""
        if permission not in PERMISSIONS:
            raise Invalid(f"Permission is [{permission}], expected one of [{', '.join(PERMISSIONS)}].")
        with self._lock:
            self._save(self._grants | {(member, permission)})

    def clear(self) -> None:
        with self._lock:
            self._save(frozenset())

    def list(self) -> list[dict[str, str]]:
        return [{"member": member, "permission": permission} for member, permission in sorted(self._grants)]

    def has(self, member: str, permission: str) -> bool:
        return (member, permission) in self._grants

    def _save(self, grants: frozenset[tuple[str, ...]]) -> None:
        write_durably(self._path, json.dumps(sorted(grants)).encode())
        self._grants = grants


@dataclass(frozen=True)
class Caller:
    """Whoever sends a request or runs a job, with the granted permissions."""

    user: str
    grants: Grants

    @property
    def member(self) -> str:
        """The caller as IAM names it."""
        return f"{'serviceAccount' if self.user.endswith(_SERVICE_ACCOUNT_SUFFIX) else 'user'}:{self.user}"

    def has(self, permission: str) -> bool:
        return self.grants.has(self.member, permission)

    def is_grantee(self, policy: RowPolicy) -> bool:
        """Whether the policy names the caller.

        The members of groups are not known, so a policy for a group applies to nobody.
        """
        domain = f"domain:{self.user.partition('@')[2]}"
        return not {self.member, domain, "allUsers", "allAuthenticatedUsers"}.isdisjoint(policy.grantees)

    def sees_all_rows(self, policies: Iterable[RowPolicy]) -> bool:
        """Whether there are no policies, or the caller is a grantee of one whose filter is TRUE."""
        policies = tuple(policies)
        return not policies or any(policy.is_true_filter and self.is_grantee(policy) for policy in policies)


def user_of(authorization: str | None) -> str:
    """The user whom an Authorization header identifies. To the stand-in, a bearer token is the user's email address."""
    token = (authorization or "").removeprefix("Bearer ").strip()
    return token if "@" in token else DEFAULT_USER
