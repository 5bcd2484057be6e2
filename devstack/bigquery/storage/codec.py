"""A table version and a dataset as JSON text and back. A missing key is an error, never a default."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from devstack.bigquery.sql.types import TableField
from devstack.bigquery.storage.model import (
    CloneDefinition,
    Dataset,
    DatasetId,
    JobMark,
    Partition,
    RowPolicy,
    Segment,
    TableId,
    TableSettings,
    TableVersion,
)

FORMAT = 2


def encode_version(version: TableVersion) -> bytes:
    document = {
        "format": FORMAT,
        "number": version.number,
        "committed_us": version.committed_us,
        "change": version.change,
        "created_us": version.created_us,
        "modified_us": version.modified_us,
        "modified_partitions": version.modified_partitions,
        "dropped": version.dropped,
        "settings": _settings_to_json(version.settings),
        "clone": _clone_to_json(version.clone),
        "job": _mark_to_json(version.job),
        "partitions": {
            key: {
                "modified_us": partition.modified_us,
                "segments": [[part.file, part.rows, dict(part.column_bytes)] for part in partition.segments],
            }
            for key, partition in version.partitions.items()
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_version(content: bytes) -> TableVersion:
    document = json.loads(content)
    if document["format"] != FORMAT:
        raise ValueError(
            f"Table version has format [{document['format']}], expected [{FORMAT}]: "
            "it was written by another release; start with an empty data folder."
        )
    return TableVersion(
        number=document["number"],
        committed_us=document["committed_us"],
        change=document["change"],
        created_us=document["created_us"],
        modified_us=document["modified_us"],
        modified_partitions=document["modified_partitions"],
        dropped=document["dropped"],
        settings=_settings_from_json(document["settings"]),
        clone=_clone_from_json(document["clone"]),
        job=_mark_from_json(document["job"]),
        partitions={
            key: Partition(
                modified_us=partition["modified_us"],
                segments=tuple(Segment(file, rows, sizes) for file, rows, sizes in partition["segments"]),
            )
            for key, partition in document["partitions"].items()
        },
    )


def _settings_to_json(settings: TableSettings) -> dict[str, Any]:
    return {
        "schema": [column.to_api() for column in settings.schema],
        "partition_column": settings.partition_column,
        "partition_expiration_ms": settings.partition_expiration_ms,
        "require_partition_filter": settings.require_partition_filter,
        "clustering": list(settings.clustering),
        "labels": dict(settings.labels),
        "description": settings.description,
        "friendly_name": settings.friendly_name,
        "expires_us": settings.expires_us,
        "row_policies": [asdict(policy) for policy in settings.row_policies],
    }


def _settings_from_json(document: dict[str, Any]) -> TableSettings:
    return TableSettings(
        schema=tuple(TableField.from_api(column) for column in document["schema"]),
        partition_column=document["partition_column"],
        partition_expiration_ms=document["partition_expiration_ms"],
        require_partition_filter=document["require_partition_filter"],
        clustering=tuple(document["clustering"]),
        labels=document["labels"],
        description=document["description"],
        friendly_name=document["friendly_name"],
        expires_us=document["expires_us"],
        row_policies=tuple(
            RowPolicy(**{**policy, "grantees": tuple(policy["grantees"])}) for policy in document["row_policies"]
        ),
    )


def _table_to_json(table: TableId) -> list[str]:
    return [table.project, table.dataset, table.table]


def _clone_to_json(clone: CloneDefinition | None) -> dict[str, Any] | None:
    return None if clone is None else {"base": _table_to_json(clone.base), "clone_us": clone.clone_us}


def _clone_from_json(document: dict[str, Any] | None) -> CloneDefinition | None:
    return None if document is None else CloneDefinition(TableId(*document["base"]), document["clone_us"])


def _mark_to_json(mark: JobMark | None) -> dict[str, Any] | None:
    if mark is None:
        return None
    return {
        "key": mark.key,
        "statistics": dict(mark.statistics),
        "parent_key": mark.parent_key,
        "parent_statistics": None if mark.parent_statistics is None else dict(mark.parent_statistics),
    }


def _mark_from_json(document: dict[str, Any] | None) -> JobMark | None:
    return None if document is None else JobMark(**document)


def encode_dataset(dataset: Dataset) -> bytes:
    document = {
        "format": FORMAT,
        "project": dataset.id.project,
        "dataset": dataset.id.dataset,
        "location": dataset.location,
        "created_us": dataset.created_us,
        "modified_us": dataset.modified_us,
        "labels": dict(dataset.labels),
        "description": dataset.description,
        "friendly_name": dataset.friendly_name,
        "max_time_travel_hours": dataset.max_time_travel_hours,
        "storage_billing_model": dataset.storage_billing_model,
        "hidden": dataset.hidden,
    }
    return json.dumps(document, indent=1).encode()


def decode_dataset(content: bytes) -> Dataset:
    document = json.loads(content)
    document.pop("format")
    return Dataset(id=DatasetId(document.pop("project"), document.pop("dataset")), **document)
