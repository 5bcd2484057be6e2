"""Handlers of tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from devstack.bigquery.errors import Duplicate, Invalid, NotFound, NotImplementedConstruct
from devstack.bigquery.jobs.load_request import layout_from_api
from devstack.bigquery.rest.call import Answer, Call, page
from devstack.bigquery.rest.datasets import merged_labels
from devstack.bigquery.rest.resources import check_etag, table_resource, time_partitioning
from devstack.bigquery.service import StandIn
from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.catalog import Change
from devstack.bigquery.storage.decorators import split_decorator
from devstack.bigquery.storage.model import DatasetId, TableId, TableSettings, TableVersion
from devstack.bigquery.storage.rules import check_settings, describe_clustering, describe_partitioning


def insert_table(stand_in: StandIn, call: Call) -> Answer:
    reference = call.body.get("tableReference") or {}
    path = (call.project(), call.path["dataset"])
    if (reference.get("projectId", path[0]), reference.get("datasetId", path[1])) != path:
        raise Invalid(f"tableReference [{reference}] differs from the URL's project and dataset [{'.'.join(path)}].")
    table, partition = split_decorator(TableId(*path, reference.get("tableId") or ""))
    if partition is not None or not table.table:
        raise Invalid(f"tableReference.tableId is [{reference.get('tableId')}], expected a plain table id.")
    settings = _changed(table, TableSettings(()), call.body, new=True)

    def build(current: TableVersion | None, commit_us: int) -> Change:
        if current is not None:
            raise Duplicate(f"Already Exists: Table {table}")
        return Change("create", settings, {})

    return _resource(stand_in, call, table, stand_in.catalog.commit(table, build))


def list_tables(stand_in: StandIn, call: Call) -> Answer:
    dataset = DatasetId(call.project(), call.path["dataset"])
    stand_in.catalog.datasets.get(dataset)
    found = stand_in.catalog.list_tables(dataset)
    items, token = page(found, call)
    body: dict[str, Any] = {
        "kind": "bigquery#tableList",
        "tables": [_list_entry(table, version) for table, version in items],
        "totalItems": len(found),
    }
    return Answer(body | ({"nextPageToken": token} if token else {}))


def _list_entry(table: TableId, version: TableVersion) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "kind": "bigquery#table",
        "id": str(table),
        "tableReference": table.to_api(),
        "type": "TABLE",
        "creationTime": str(version.created_us // 1000),
    }
    settings = version.settings
    if settings.partition_column is not None:
        entry["timePartitioning"] = time_partitioning(version)
    if settings.clustering:
        entry["clustering"] = {"fields": list(settings.clustering)}
    if settings.labels:
        entry["labels"] = dict(settings.labels)
    if settings.expires_us is not None:
        entry["expirationTime"] = str(settings.expires_us // 1000)
    return entry


def get_table(stand_in: StandIn, call: Call) -> Answer:
    table, partition = table_of(call)
    version = stand_in.catalog.get(table)
    if partition is not None and version.settings.partition_column is None:
        raise Invalid(f"Table {table} is not partitioned: leave [${partition}] out.")
    return _resource(stand_in, call, table, version, partition)


def patch_table(stand_in: StandIn, call: Call) -> Answer:
    return _change(stand_in, call, replaces=False)


def update_table(stand_in: StandIn, call: Call) -> Answer:
    """PUT: what the request leaves out goes back to its default, except layout and schema, which it must repeat."""
    return _change(stand_in, call, replaces=True)


def delete_table(stand_in: StandIn, call: Call) -> Answer:
    table, partition = table_of(call)
    if partition is None:
        stand_in.catalog.drop(table)
        return Answer(None, 204)

    def build(current: TableVersion | None, commit_us: int) -> Change:
        if current is None or partition not in current.partitions:
            raise NotFound(f"Not found: Table {table}${partition}")
        rest = {key: part for key, part in current.partitions.items() if key != partition}
        return Change("drop partition", current.settings, rest, current.clone, modified_partitions=1)

    stand_in.catalog.commit(table, build)
    return Answer(None, 204)


def table_of(call: Call) -> tuple[TableId, str | None]:
    return split_decorator(TableId(call.project(), call.path["dataset"], call.path["table"]))


def _resource(
    stand_in: StandIn, call: Call, table: TableId, version: TableVersion, partition: str | None = None
) -> Answer:
    location = stand_in.catalog.datasets.get(table.dataset_id).location
    return Answer(table_resource(table, version, location, call.base_url, partition))


def _change(stand_in: StandIn, call: Call, replaces: bool) -> Answer:
    table, partition = table_of(call)
    if partition is not None:
        raise NotImplementedConstruct("change of a single partition's metadata")
    location = stand_in.catalog.datasets.get(table.dataset_id).location

    def build(current: TableVersion | None, commit_us: int) -> Change:
        if current is None:
            raise NotFound(f"Not found: Table {table}")
        check_etag(call.headers, table_resource(table, current, location, call.base_url))
        before = current.settings
        start = _layout_only(before) if replaces else before
        settings = _changed(table, start, call.body, new=False)
        if replaces:
            _check_same_layout(table, before, call.body)
        return Change("options", settings, current.partitions, current.clone)

    return _resource(stand_in, call, table, stand_in.catalog.commit(table, build))


def _layout_only(settings: TableSettings) -> TableSettings:
    return TableSettings(
        settings.schema,
        settings.partition_column,
        clustering=settings.clustering,
        row_policies=settings.row_policies,
    )


def _check_same_layout(table: TableId, settings: TableSettings, body: Mapping[str, Any]) -> None:
    if settings.partition_column is not None and not body.get("timePartitioning"):
        raise Invalid(f"Cannot remove the partitioning [{describe_partitioning(settings)}] of {table}: send it again.")
    if settings.clustering and not body.get("clustering"):
        raise NotImplementedConstruct(f"removal of {describe_clustering(settings)} from {table}")


def _changed(table: TableId, settings: TableSettings, body: Mapping[str, Any], new: bool) -> TableSettings:
    """The settings with what the body says; a null removes."""
    changes: dict[str, Any] = {}
    if body.get("schema") is not None:
        changes["schema"] = _schema(table, settings, body["schema"].get("fields") or [], new)
    if "timePartitioning" in body or "clustering" in body:
        changes |= _layout_changes(table, settings, body, new)
    if "labels" in body:
        changes["labels"] = merged_labels(settings.labels, body["labels"])
    for key, name in (("description", "description"), ("friendlyName", "friendly_name")):
        if key in body:
            changes[name] = body[key] or None
    if "expirationTime" in body:
        changes["expires_us"] = int(body["expirationTime"]) * 1000 if body["expirationTime"] else None
    filter_flag = body.get("requirePartitionFilter", (body.get("timePartitioning") or {}).get("requirePartitionFilter"))
    if filter_flag is not None:
        changes["require_partition_filter"] = bool(filter_flag)
    changed = replace(settings, **changes)
    check_settings(table, changed)
    return changed


def _schema(
    table: TableId, settings: TableSettings, fields: list[Mapping[str, Any]], new: bool
) -> tuple[TableField, ...]:
    schema = tuple(TableField.from_api(field) for field in fields)
    if new or not settings.schema:
        return schema
    if _without_remarks(schema) != _without_remarks(settings.schema):
        raise NotImplementedConstruct(
            f"change of columns of existing table {table} (only descriptions and policy tags may change)"
        )
    return _with_kept_tags(schema, fields, settings.schema)


def _without_remarks(schema: tuple[TableField, ...]) -> tuple[TableField, ...]:
    return tuple(
        replace(column, description=None, policy_tags=(), fields=_without_remarks(column.fields)) for column in schema
    )


def _with_kept_tags(
    schema: tuple[TableField, ...], fields: list[Mapping[str, Any]], existing: tuple[TableField, ...]
) -> tuple[TableField, ...]:
    """A column that the request gives no `policyTags` keeps its own; an empty list of names or a null removes them."""
    return tuple(
        replace(
            column,
            policy_tags=column.policy_tags if "policyTags" in field else before.policy_tags,
            fields=_with_kept_tags(column.fields, field.get("fields") or [], before.fields),
        )
        for column, field, before in zip(schema, fields, existing, strict=True)
    )


def _layout_changes(table: TableId, settings: TableSettings, body: Mapping[str, Any], new: bool) -> dict[str, Any]:
    layout = layout_from_api(body)
    changes: dict[str, Any] = {}
    if "timePartitioning" in body:
        if not new and layout.partition_column != settings.partition_column:
            raise Invalid(
                f"Cannot change partitioning of table {table}: it is {describe_partitioning(settings)}, the request "
                f"says [{layout.partition_column}]. Create another table."
            )
        changes["partition_column"] = layout.partition_column
        changes["partition_expiration_ms"] = layout.partition_expiration_ms
    if "clustering" in body:
        if not new and (layout.clustering or ()) != settings.clustering:
            raise NotImplementedConstruct(f"change of clustering of existing table {table}")
        changes["clustering"] = layout.clustering or ()
    return changes
