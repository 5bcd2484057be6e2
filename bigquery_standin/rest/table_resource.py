"""Writes datasets and tables as the API's resources. Their etags are digests of the content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from bigquery_standin.bigquery_errors import StandInError
from bigquery_standin.clock import HOUR_US, MICROSECONDS, floor_to_millisecond, to_datetime
from bigquery_standin.sql.ddl_options import staleness_text
from bigquery_standin.storage.model import TIME_TRAVEL_US, Dataset, TableId, TableSettings, TableVersion


def etag_of(resource: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(resource, sort_keys=True).encode()).hexdigest()
    return f'"{digest[:22]}"'


def check_etag(headers: Mapping[str, str], resource: Mapping[str, Any]) -> None:
    """Raises StandInError if the request has an If-Match header with another etag than the resource."""
    expected = headers.get("if-match")
    if expected and expected not in ("*", resource["etag"]):
        raise StandInError(
            f"Precondition check failed: {resource['id']} has etag [{resource['etag']}], If-Match says [{expected}]. "
            "Read it again and repeat the change.",
            "conditionNotMet",
        )


def dataset_resource(dataset: Dataset) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "kind": "bigquery#dataset",
        "id": str(dataset.id),
        "datasetReference": {"projectId": dataset.id.project, "datasetId": dataset.id.dataset},
        "location": dataset.location,
        "creationTime": str(dataset.created_us // 1000),
        "lastModifiedTime": str(dataset.modified_us // 1000),
        "maxTimeTravelHours": str(TIME_TRAVEL_US // HOUR_US),
        "type": "DEFAULT",
    }
    _add_set_fields(
        resource,
        labels=dict(dataset.labels),
        defaultTableExpirationMs=_text(dataset.default_table_expiration_ms),
        defaultPartitionExpirationMs=_text(dataset.default_partition_expiration_ms),
    )
    return resource | {"etag": etag_of(resource)}


def _time_partitioning(settings: TableSettings) -> dict[str, Any] | None:
    if settings.partition_column is None:
        return None
    partitioning: dict[str, Any] = {"type": settings.partition_unit, "field": settings.partition_column}
    if settings.partition_expiration_ms is not None:
        partitioning["expirationMs"] = str(settings.partition_expiration_ms)
    return partitioning


def table_resource(table: TableId, version: TableVersion, location: str) -> dict[str, Any]:
    settings = version.settings
    resource: dict[str, Any] = {
        "kind": "bigquery#table",
        "id": str(table),
        "tableReference": table.to_api(),
        "type": "VIEW" if settings.view else "TABLE",
        "location": location,
        "creationTime": str(version.table_created_us // 1000),
        "lastModifiedTime": str(version.modified_us // 1000),
        "numRows": str(version.rows),
        "numBytes": str(version.bytes),
    }
    if settings.schema:
        resource["schema"] = {"fields": [column.to_api() for column in settings.schema]}
    if settings.partition_column is not None:
        resource["numPartitions"] = str(len(version.partitions))
    if settings.require_partition_filter:
        resource["requirePartitionFilter"] = True
    _add_set_fields(
        resource,
        timePartitioning=_time_partitioning(version.settings),
        clustering={"fields": list(settings.clustering)} if settings.clustering else None,
        labels=dict(settings.labels),
        view={"query": settings.view, "useLegacySql": False} if settings.view else None,
        description=settings.description,
        friendlyName=settings.friendly_name,
        expirationTime=None if settings.expires_us is None else str(settings.expires_us // 1000),
        tableConstraints={"primaryKey": {"columns": list(settings.primary_key)}} if settings.primary_key else None,
        maxStaleness=None if settings.max_staleness_s is None else staleness_text(settings.max_staleness_s),
        cloneDefinition=_clone_definition(version),
        encryptionConfiguration={"kmsKeyName": settings.kms_key_name} if settings.kms_key_name else None,
        streamingBuffer=_streaming_buffer(version),
    )
    return resource | {"etag": etag_of(resource)}


def _clone_definition(version: TableVersion) -> dict[str, Any] | None:
    if version.clone is None:
        return None
    clone_time = rfc3339(floor_to_millisecond(version.clone.clone_us))
    return {"baseTableReference": version.clone.base.to_api(), "cloneTime": clone_time}


def _streaming_buffer(version: TableVersion) -> dict[str, str]:
    """The resource's streamingBuffer; empty if there are no rows in it."""
    if not version.buffer:
        return {}
    return {
        "estimatedRows": str(sum(rows.segment.rows for rows in version.buffer)),
        "estimatedBytes": str(sum(rows.segment.bytes for rows in version.buffer)),
        "oldestEntryTime": str(min(rows.received_us for rows in version.buffer) // 1000),
    }


def rfc3339(moment_us: int) -> str:
    """The time as Google's JSON prints it: with 0, 3 or 6 digits after the second, as few as hold it exactly."""
    precision = "microseconds" if moment_us % 1000 else "milliseconds" if moment_us % MICROSECONDS else "seconds"
    return f"{to_datetime(moment_us).replace(tzinfo=None).isoformat(timespec=precision)}Z"


def _text(number: int | None) -> str | None:
    return None if number is None else str(number)


def _add_set_fields(resource: dict[str, Any], **values: Any) -> None:
    """Adds the fields whose value is neither None nor an empty object."""
    resource.update({key: value for key, value in values.items() if value not in (None, {})})
