"""Handles requests about tables, and about their row access policies and the caller's permissions on both.

Resources of policies contain no grantees, because BigQuery stores these as IAM policies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bigquery_standin.bigquery_errors import Duplicate, Invalid, NotFound, NotImplementedConstruct
from bigquery_standin.jobs.destination_table import with_new_columns
from bigquery_standin.rest.dataset_handlers import merged_labels
from bigquery_standin.rest.google_api import Answer, ApiRequest, check_reference, paginate
from bigquery_standin.rest.table_resource import check_etag, rfc3339, table_resource
from bigquery_standin.sql.ddl_options import staleness_seconds
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.access import OVERRIDE_TIME_TRAVEL
from bigquery_standin.storage.model import DatasetId, RowPolicy, TableId, TableSettings, TableVersion
from bigquery_standin.storage.partitions import ID_LENGTHS, split_decorator
from bigquery_standin.storage.table_history import Change
from bigquery_standin.storage.table_rules import changed_settings

# The fields of a table in a list. Source: REST reference of tables.list.
_LISTED = (
    *("kind", "id", "tableReference", "type", "creationTime", "timePartitioning", "clustering", "labels"),
    "expirationTime",
)


def insert_table(stand_in: StandIn, request: ApiRequest) -> Answer:
    reference = request.body.get("tableReference") or {}
    dataset = DatasetId(request.project(), request.path["dataset"])
    check_reference("tableReference", reference, {"projectId": dataset.project, "datasetId": dataset.dataset})
    table, partition = split_decorator(TableId(dataset.project, dataset.dataset, reference.get("tableId") or ""))
    if partition is not None or not table.table:
        raise Invalid(f"tableReference.tableId is [{reference.get('tableId')}], expected a plain table id.")
    settings = changed_settings(table, None, _changes(TableSettings(()), request.body))
    catalog = stand_in.catalog
    with catalog.writing(table) as current:
        if current is not None:
            raise Duplicate(f"Already Exists: Table {table}")
        return _resource(stand_in, table, catalog.commit(table, Change(settings, {}, catalog.next_us(table))))


def list_tables(stand_in: StandIn, request: ApiRequest) -> Answer:
    dataset = DatasetId(request.project(), request.path["dataset"])
    location = stand_in.catalog.datasets.get(dataset).location
    all_tables = stand_in.catalog.list_tables(dataset)
    items, next_page = paginate(all_tables, request)
    resources = [table_resource(table, version, location) for table, version in items]
    tables = [{key: resource[key] for key in _LISTED if key in resource} for resource in resources]
    return {"kind": "bigquery#tableList", "tables": tables, "totalItems": len(all_tables)} | next_page


def get_table(stand_in: StandIn, request: ApiRequest) -> Answer:
    table = requested_table(request)
    return _resource(stand_in, table, stand_in.catalog.get(table))


def delete_table(stand_in: StandIn, request: ApiRequest) -> Answer:
    stand_in.catalog.drop(requested_table(request))
    return None


def requested_table(request: ApiRequest) -> TableId:
    """The table in the URL. Raises NotImplementedConstruct for a partition of it."""
    table, partition = split_decorator(TableId(request.project(), request.path["dataset"], request.path["table"]))
    if partition is not None:
        raise NotImplementedConstruct(f"the partition {table.table}${partition} in a URL")
    return table


def _resource(stand_in: StandIn, table: TableId, version: TableVersion) -> Answer:
    location = stand_in.catalog.datasets.get(table.dataset_id).location
    return table_resource(table, version, location)


def patch_table(stand_in: StandIn, request: ApiRequest) -> Answer:
    table = requested_table(request)
    location = stand_in.catalog.datasets.get(table.dataset_id).location

    catalog = stand_in.catalog
    with catalog.writing(table):
        current = catalog.get(table)
        check_etag(request.headers, table_resource(table, current, location))
        before = current.settings
        settings = changed_settings(table, before, _changes(before, request.body))
        if len(settings.schema) > len(before.schema) > 0:
            if current.buffer:
                raise NotImplementedConstruct(f"new columns of table {table} while it has a streaming buffer")
            current = with_new_columns(catalog.segments, current, settings.schema)
        change = Change(settings, current.partitions, catalog.next_us(table), current.clone)
        return _resource(stand_in, table, catalog.commit(table, change))


# By field of a request: the setting, and what makes its value.
_SETTINGS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "description": ("description", lambda value: value or None),
    "friendlyName": ("friendly_name", lambda value: value or None),
    "encryptionConfiguration": ("kms_key_name", lambda value: (value or {}).get("kmsKeyName")),
    "expirationTime": ("expires_us", lambda value: int(value) * 1000 if value else None),
    "maxStaleness": ("max_staleness_s", lambda value: staleness_seconds(value) if value else None),
    "tableConstraints": (
        "primary_key",
        lambda value: tuple(((value or {}).get("primaryKey") or {}).get("columns") or ()),
    ),
}


def _changes(before: TableSettings, body: Mapping[str, Any]) -> dict[str, Any]:
    """The new values of settings in a request's body, by their names in TableSettings.

    A null removes a value. A null schema changes nothing.
    """
    changes = {name: make(body[field]) for field, (name, make) in _SETTINGS.items() if field in body}
    if body.get("schema") is not None:
        fields = body["schema"].get("fields") or []
        changes["schema"] = tuple(map(TableField.from_api, _with_unchanged_tags(fields, before.schema)))
    if "timePartitioning" in body:
        changes |= _partitioning(body["timePartitioning"] or {})
    if "clustering" in body:
        # BigQuery keeps the rows in the order in which they were written. Source: "Manage clustered tables", Modify the
        # clustering specification. The stand-in estimates scanned bytes as if they were in the new order.
        changes["clustering"] = tuple((body["clustering"] or {}).get("fields") or ())
    if "labels" in body:
        changes["labels"] = merged_labels(before.labels, body["labels"])
    flag = "requirePartitionFilter"  # the API also has it, deprecated, in timePartitioning
    flags = [part[flag] for part in (body, body.get("timePartitioning") or {}) if flag in part]
    if flags:
        changes["require_partition_filter"] = any(flags)
    return changes


def _partitioning(api: Mapping[str, Any]) -> dict[str, Any]:
    """Raises NotImplementedConstruct for partitioning that is not by the hours, days or months of a column."""
    if api and api.get("type") not in ID_LENGTHS:
        raise NotImplementedConstruct(f"timePartitioning.type {api.get('type')}")
    if api and not api.get("field"):
        raise NotImplementedConstruct("timePartitioning without field (partitioning by ingestion time)")
    return {
        "partition_column": api.get("field"),
        "partition_unit": api.get("type") or "DAY",
        "partition_expiration_ms": max(int(api.get("expirationMs") or 0), 0) or None,
    }


def _with_unchanged_tags(fields: Sequence[Mapping[str, Any]], existing: Sequence[TableField]) -> list[dict[str, Any]]:
    """The fields with the tags of existing columns for which the request has no `policyTags`.

    An empty list of names or a null removes the tags.
    """
    columns = {column.name: column for column in existing}
    kept = []
    for field in fields:
        before, new = columns.get(field.get("name", "")), dict(field)
        if before is not None and before.policy_tags:
            new = {"policyTags": {"names": list(before.policy_tags)}, **new}
        if before is not None and field.get("fields"):
            new["fields"] = _with_unchanged_tags(field["fields"], before.fields)
        kept.append(new)
    return kept


_READ_ROWS = "bigquery.rowAccessPolicies.getFilteredData"
_GRANTEES_ROLE = "roles/bigquery.filteredDataViewer"


def list_policies(stand_in: StandIn, request: ApiRequest) -> Answer:
    table = requested_table(request)
    policies = stand_in.catalog.get(table).settings.row_policies
    items, next_page = paginate(list(policies), request, size_parameter="pageSize")
    body: dict[str, Any] = {"rowAccessPolicies": [_policy_resource(table, policy) for policy in items]} if items else {}
    return body | next_page


def get_iam_policy(stand_in: StandIn, request: ApiRequest) -> Answer:
    table, name = requested_table(request), request.path["policy"]
    policy = stand_in.catalog.get(table).settings.row_policy(name)
    if policy is None:
        raise NotFound(f"Not found: Row access policy {name} on table {table}")
    body: dict[str, Any] = {"version": 1}
    if policy.grantees:
        body["bindings"] = [{"role": _GRANTEES_ROLE, "members": list(policy.grantees)}]
    return body


def test_table_permissions(stand_in: StandIn, request: ApiRequest) -> Answer:
    """Which of the permissions in the request the caller has. On a table that does not exist, nobody has any."""
    caller = stand_in.caller(request.user())
    exists = stand_in.catalog.find(requested_table(request)) is not None
    tested = _permissions(request, (OVERRIDE_TIME_TRAVEL,))
    return _permitted([name for name in tested if exists and caller.has(name)])


def test_policy_permissions(stand_in: StandIn, request: ApiRequest) -> Answer:
    version = stand_in.catalog.find(requested_table(request))
    policy = None if version is None else version.settings.row_policy(request.path["policy"])
    tested = _permissions(request, (_READ_ROWS,))
    is_grantee = policy is not None and stand_in.caller(request.user()).is_grantee(policy)
    return _permitted(tested if is_grantee else [])


def _permissions(request: ApiRequest, supported: tuple[str, ...]) -> list[str]:
    """The permissions that the request asks about. Raises NotImplementedConstruct for one that is not supported."""
    permissions = list(request.body.get("permissions") or ())
    for name in permissions:
        if name not in supported:
            raise NotImplementedConstruct(f"testIamPermissions of {name}")
    return permissions


def _permitted(permissions: list[str]) -> dict[str, Any]:
    return {"permissions": permissions} if permissions else {}


def _policy_resource(table: TableId, policy: RowPolicy) -> dict[str, Any]:
    return {
        "rowAccessPolicyReference": {**table.to_api(), "policyId": policy.name},
        "filterPredicate": policy.predicate,
        "creationTime": rfc3339(policy.created_us),
        "lastModifiedTime": rfc3339(policy.created_us),
    }
