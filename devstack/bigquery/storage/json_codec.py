"""Encodes table versions and datasets as JSON, and decodes them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.storage.model import (
    BufferedRows,
    ChangeLog,
    CloneDefinition,
    CommitInfo,
    Dataset,
    DatasetId,
    Partition,
    PendingChanges,
    RowPolicy,
    Segment,
    TableId,
    TableSettings,
    TableVersion,
)

FORMAT = 5


def encode_version(version: TableVersion) -> bytes:
    document = {
        "format": FORMAT,
        "number": version.number,
        "committed_us": version.committed_us,
        "change": version.change_kind,
        "created_us": version.table_created_us,
        "modified_us": version.modified_us,
        "modified_partitions": version.modified_partitions,
        "dropped": version.dropped,
        "had_row_policies": version.had_row_policies,
        "settings": _settings_to_json(version.settings),
        "clone": _clone_to_json(version.clone),
        "job": None if version.job is None else asdict(version.job),
        "partitions": {
            key: {
                "modified_us": partition.modified_us,
                "segments": [
                    [segment.file, segment.rows, dict(segment.column_bytes)] for segment in partition.segments
                ],
            }
            for key, partition in version.partitions.items()
        },
        "buffer": [asdict(rows) for rows in version.buffer],
        "change_log": None if version.change_log is None else asdict(version.change_log),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def decode_version(content: bytes) -> TableVersion:
    """Raises ValueError for another format than FORMAT."""
    document = json.loads(content)
    _check_format(document, "Table version")
    return TableVersion(
        number=document["number"],
        committed_us=document["committed_us"],
        change_kind=document["change"],
        table_created_us=document["created_us"],
        modified_us=document["modified_us"],
        modified_partitions=document["modified_partitions"],
        dropped=document["dropped"],
        had_row_policies=document["had_row_policies"],
        settings=_settings_from_json(document["settings"]),
        clone=_clone_from_json(document["clone"]),
        job=None if document["job"] is None else CommitInfo(**document["job"]),
        partitions={
            key: Partition(
                modified_us=partition["modified_us"],
                segments=tuple(Segment(file, rows, sizes) for file, rows, sizes in partition["segments"]),
            )
            for key, partition in document["partitions"].items()
        },
        buffer=tuple(_buffered_rows(rows) for rows in document["buffer"]),
        change_log=_change_log(document["change_log"]),
    )


def _change_log(document: dict[str, Any] | None) -> ChangeLog | None:
    if document is None:
        return None
    pending = (PendingChanges(Segment(**item["segment"]), item["acknowledged_us"]) for item in document["pending"])
    applied = None if document["applied"] is None else Segment(**document["applied"])
    return ChangeLog(**{**document, "pending": tuple(pending), "applied": applied})


def _buffered_rows(document: dict[str, Any]) -> BufferedRows:
    return BufferedRows(Segment(**document["segment"]), document["received_us"])


def _settings_to_json(settings: TableSettings) -> dict[str, Any]:
    return {
        **vars(settings),
        "schema": [column.to_api() for column in settings.schema],
        "row_policies": [asdict(policy) for policy in settings.row_policies],
    }


def _settings_from_json(document: dict[str, Any]) -> TableSettings:
    policies = [RowPolicy(**{**policy, "grantees": tuple(policy["grantees"])}) for policy in document["row_policies"]]
    return TableSettings(
        **document
        | {
            "schema": tuple(TableField.from_api(column) for column in document["schema"]),
            "clustering": tuple(document["clustering"]),
            "primary_key": tuple(document["primary_key"]),
            "row_policies": tuple(policies),
        }
    )


def _clone_to_json(clone: CloneDefinition | None) -> dict[str, Any] | None:
    if clone is None:
        return None
    return {"base": [clone.base.project, clone.base.dataset, clone.base.table], "clone_us": clone.clone_us}


def _clone_from_json(document: dict[str, Any] | None) -> CloneDefinition | None:
    return None if document is None else CloneDefinition(TableId(*document["base"]), document["clone_us"])


def encode_dataset(dataset: Dataset) -> bytes:
    settings = {name: value for name, value in vars(dataset).items() if name != "id"}
    document = {"format": FORMAT, "project": dataset.id.project, "dataset": dataset.id.dataset, **settings}
    return json.dumps(document, indent=1).encode()


def decode_dataset(content: bytes) -> Dataset:
    """Raises ValueError for another format than FORMAT."""
    document = json.loads(content)
    _check_format(document, "Dataset")
    del document["format"]
    return Dataset(id=DatasetId(document.pop("project"), document.pop("dataset")), **document)


def _check_format(document: dict[str, Any], kind: str) -> None:
    if document["format"] != FORMAT:
        raise ValueError(
            f"{kind} has format [{document['format']}], expected [{FORMAT}]: "
            "it was written by another release; start with an empty data folder."
        )
