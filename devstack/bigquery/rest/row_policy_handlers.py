"""Handlers of row access policies. Responses have no grantees, because BigQuery stores those as IAM policies."""

from __future__ import annotations

import threading
from typing import Any

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.row_policy_changes import add_policy_change, check_predicate, drop_policy_change
from devstack.bigquery.rest.request_response import ApiRequest, ApiResponse, paginate
from devstack.bigquery.rest.table_handlers import requested_table
from devstack.bigquery.rest.table_resource import etag_of, rfc3339
from devstack.bigquery.sql.script_parser import parse_predicate
from devstack.bigquery.stand_in import StandIn
from devstack.bigquery.storage.model import RowPolicy, TableId
from devstack.bigquery.storage.row_policy_rules import get_policy, policy_reference

_FORCE = "Delete it with force=true."


def insert_policy(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table = _table(request)
    reference, text = request.body.get("rowAccessPolicyReference") or {}, request.body.get("filterPredicate")
    name = reference.get("policyId")
    if not name or not text:
        raise Invalid("Required parameter is missing: rowAccessPolicyReference.policyId and filterPredicate.")
    named = {**table.to_api(), **{key: value for key, value in reference.items() if key != "policyId"}}
    if named != table.to_api():
        raise Invalid(f"rowAccessPolicyReference [{named}] differs from the URL's table [{table}].")
    settings = stand_in.catalog.get(table).settings
    session = DuckDbSession(threading.Event())
    try:
        check_predicate(parse_predicate(text), table, settings, session)
    finally:
        session.close()
    grantees = tuple(request.body.get("grantees") or ())
    build = add_policy_change(table, settings, name, text, grantees, replaces=False)
    version = stand_in.catalog.commit(table, build)
    return ApiResponse(_resource(table, get_policy(table, version.settings.row_policies, name)))


def list_policies(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table = _table(request)
    policies = stand_in.catalog.get(table).settings.row_policies
    items, next_page = paginate(list(policies), request, size_parameter="pageSize")
    body: dict[str, Any] = {"rowAccessPolicies": [_resource(table, policy) for policy in items]} if items else {}
    return ApiResponse(body | next_page)


def get_one_policy(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table = _table(request)
    policies = stand_in.catalog.get(table).settings.row_policies
    return ApiResponse(_resource(table, get_policy(table, policies, request.path["policy"])))


def delete_policy(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    table = _table(request)
    build = drop_policy_change(table, request.path["policy"], last=None if request.flag("force") else _FORCE)
    stand_in.catalog.commit(table, build)
    return ApiResponse({})


def _table(request: ApiRequest) -> TableId:
    table, partition = requested_table(request)
    if partition is not None:
        raise Invalid(f"Row access policies are of a whole table: leave [${partition}] out.")
    return table


def _resource(table: TableId, policy: RowPolicy) -> dict[str, Any]:
    resource = {
        "rowAccessPolicyReference": policy_reference(table, policy.name),
        "filterPredicate": policy.predicate,
        "creationTime": rfc3339(policy.created_us),
        "lastModifiedTime": rfc3339(policy.modified_us),
    }
    return resource | {"etag": etag_of(resource)}
