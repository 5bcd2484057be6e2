"""Handles requests about row access policies, and about the caller's permissions on them and on their table.

Resources contain no grantees, because BigQuery stores these as IAM policies.
"""

from __future__ import annotations

from typing import Any

from bigquery_standin.bigquery_errors import NotFound, NotImplementedConstruct
from bigquery_standin.rest.request_response import ApiRequest, ApiResponse, paginate
from bigquery_standin.rest.table_handlers import requested_table
from bigquery_standin.rest.table_resource import etag_of, rfc3339
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.access import OVERRIDE_TIME_TRAVEL
from bigquery_standin.storage.model import RowPolicy, TableId

_READ_ROWS = "bigquery.rowAccessPolicies.getFilteredData"
_GRANTEES_ROLE = "roles/bigquery.filteredDataViewer"


def list_policies(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table = requested_table(request)
    policies = stand_in.catalog.get(table).settings.row_policies
    items, next_page = paginate(list(policies), request, size_parameter="pageSize")
    body: dict[str, Any] = {"rowAccessPolicies": [_resource(table, policy) for policy in items]} if items else {}
    return ApiResponse(body | next_page)


def get_iam_policy(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table, name = requested_table(request), request.path["policy"]
    policy = stand_in.catalog.get(table).settings.row_policy(name)
    if policy is None:
        raise NotFound(f"Not found: Row access policy {name} on table {table}")
    body: dict[str, Any] = {"version": 1, "etag": etag_of({"grantees": policy.grantees})}
    if policy.grantees:
        body["bindings"] = [{"role": _GRANTEES_ROLE, "members": list(policy.grantees)}]
    return ApiResponse(body)


def test_table_permissions(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    """Which of the permissions in the request the caller has. On a table that does not exist, nobody has any."""
    caller = stand_in.caller(request.user())
    exists = stand_in.catalog.find(requested_table(request)) is not None
    tested = _permissions(request, (OVERRIDE_TIME_TRAVEL,))
    return ApiResponse(_permitted([name for name in tested if exists and caller.has(name)]))


def test_policy_permissions(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    version = stand_in.catalog.find(requested_table(request))
    policy = None if version is None else version.settings.row_policy(request.path["policy"])
    tested = _permissions(request, (_READ_ROWS,))
    is_grantee = policy is not None and stand_in.caller(request.user()).is_grantee(policy)
    return ApiResponse(_permitted(tested if is_grantee else []))


def _permissions(request: ApiRequest, supported: tuple[str, ...]) -> list[str]:
    """The permissions that the request asks about. Raises NotImplementedConstruct for one that is not supported."""
    permissions = list(request.body.get("permissions") or ())
    for name in permissions:
        if name not in supported:
            raise NotImplementedConstruct(f"testIamPermissions of {name}")
    return permissions


def _permitted(permissions: list[str]) -> dict[str, Any]:
    return {"permissions": permissions} if permissions else {}


def _resource(table: TableId, policy: RowPolicy) -> dict[str, Any]:
    resource = {
        "rowAccessPolicyReference": {**table.to_api(), "policyId": policy.name},
        "filterPredicate": policy.predicate,
        "creationTime": rfc3339(policy.created_us),
        "lastModifiedTime": rfc3339(policy.created_us),
    }
    return resource | {"etag": etag_of(resource)}
