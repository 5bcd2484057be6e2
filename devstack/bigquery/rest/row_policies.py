"""Handlers of row access policies. Grantees are input only: BigQuery keeps them as IAM policies and shows none."""

from __future__ import annotations

import threading
from typing import Any

from devstack.bigquery.errors import Invalid
from devstack.bigquery.jobs.duckdb_session import DuckDbSession
from devstack.bigquery.jobs.row_policies import adds_policy, check_predicate, drops_policy
from devstack.bigquery.rest.call import Answer, Call, page
from devstack.bigquery.rest.resources import etag_of, rfc3339
from devstack.bigquery.rest.tables import table_of
from devstack.bigquery.service import StandIn
from devstack.bigquery.sql.parser import parse_predicate
from devstack.bigquery.storage.model import RowPolicy, TableId
from devstack.bigquery.storage.row_policies import get_policy, policy_reference

_FORCE = "Delete it with force=true."


def insert_policy(stand_in: StandIn, call: Call) -> Answer:
    table = _table(call)
    reference, text = call.body.get("rowAccessPolicyReference") or {}, call.body.get("filterPredicate")
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
    grantees = tuple(call.body.get("grantees") or ())
    build = adds_policy(table, settings, name, text, grantees, replaces=False)
    version = stand_in.catalog.commit(table, build)
    return Answer(_resource(table, get_policy(table, version.settings.row_policies, name)))


def list_policies(stand_in: StandIn, call: Call) -> Answer:
    table = _table(call)
    policies = stand_in.catalog.get(table).settings.row_policies
    items, token = page(list(policies), call, size_parameter="pageSize")
    body: dict[str, Any] = {"rowAccessPolicies": [_resource(table, policy) for policy in items]} if items else {}
    return Answer(body | ({"nextPageToken": token} if token else {}))


def get_one_policy(stand_in: StandIn, call: Call) -> Answer:
    table = _table(call)
    policies = stand_in.catalog.get(table).settings.row_policies
    return Answer(_resource(table, get_policy(table, policies, call.path["policy"])))


def delete_policy(stand_in: StandIn, call: Call) -> Answer:
    table = _table(call)
    build = drops_policy(table, call.path["policy"], last=None if call.flag("force") else _FORCE)
    stand_in.catalog.commit(table, build)
    return Answer({})


def _table(call: Call) -> TableId:
    table, partition = table_of(call)
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
