"""Identifies callers, stores their permissions beyond those of a dataset's owner, and refuses what they may not read.

Every caller has the permissions of roles/bigquery.dataOwner and roles/bigquery.jobUser. The stand-in enforces
permissions that these roles lack: reading the past of a table that has or had row access policies, reading columns
with a policy tag, and using connections. Sources, in BigQuery's documentation: "BigQuery IAM roles and permissions";
"Using row-level security with other BigQuery features"; "Introduction to column-level access control"; "Data retention
with time travel and fail-safe", time travel and row-level access.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from bigquery_standin.atomic_files import write_atomically
from bigquery_standin.bigquery_errors import AccessDenied, Invalid, NotImplementedConstruct
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import RowPolicy, TableId, TableVersion

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

    def has(self, member: str, permission: str) -> bool:
        return (member, permission) in self._grants

    def _save(self, grants: frozenset[tuple[str, ...]]) -> None:
        write_atomically(self._path, json.dumps(sorted(grants)).encode())
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
