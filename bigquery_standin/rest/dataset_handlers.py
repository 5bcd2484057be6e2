"""Handles requests about datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.rest.google_api import Answer, ApiRequest, check_reference, paginate
from bigquery_standin.rest.table_resource import check_etag, dataset_resource
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.model import Dataset, DatasetId
from bigquery_standin.storage.table_rules import check_labels

DEFAULT_LOCATION = "US"


def normalize_location(location: str | None) -> str:
    """The location in BigQuery's spelling: multi-regions in upper case, regions in lower case. Without one: US."""
    if not location:
        return DEFAULT_LOCATION
    return location.upper() if location.upper() in ("US", "EU") else location.lower()


def insert_dataset(stand_in: StandIn, request: ApiRequest) -> Answer:
    reference = request.body.get("datasetReference") or {}
    check_reference("datasetReference", reference, {"projectId": request.project()})
    if not reference.get("datasetId"):
        raise Invalid("Required parameter is missing: datasetReference.datasetId")
    dataset = Dataset(
        DatasetId(request.project(), reference["datasetId"]), normalize_location(request.body.get("location")), 0, 0
    )
    created = stand_in.catalog.datasets.create(_with_changes(dataset, request.body))
    return dataset_resource(created)


def list_datasets(stand_in: StandIn, request: ApiRequest) -> Answer:
    all_datasets = stand_in.catalog.datasets.list(request.project())
    items, next_page = paginate(all_datasets, request)
    keys = ("kind", "id", "datasetReference", "location", "labels", "type")
    datasets = []
    for dataset in items:
        resource = dataset_resource(dataset)
        datasets.append({key: resource[key] for key in keys if key in resource})
    body: dict[str, Any] = {"kind": "bigquery#datasetList", "datasets": datasets}
    return body | next_page


def get_dataset(stand_in: StandIn, request: ApiRequest) -> Answer:
    return dataset_resource(stand_in.catalog.datasets.get(_dataset_id(request)))


def patch_dataset(stand_in: StandIn, request: ApiRequest) -> Answer:
    def change(dataset: Dataset) -> Dataset:
        check_etag(request.headers, dataset_resource(dataset))
        return _with_changes(dataset, request.body)

    return dataset_resource(stand_in.catalog.datasets.update(_dataset_id(request), change))


def delete_dataset(stand_in: StandIn, request: ApiRequest) -> Answer:
    stand_in.catalog.drop_dataset(_dataset_id(request), request.flag("deleteContents"))
    return None


def _dataset_id(request: ApiRequest) -> DatasetId:
    return DatasetId(request.project(), request.path["dataset"])


_EXPIRATIONS = {
    "defaultTableExpirationMs": "default_table_expiration_ms",
    "defaultPartitionExpirationMs": "default_partition_expiration_ms",
}


def _with_changes(dataset: Dataset, body: Mapping[str, Any]) -> Dataset:
    changes: dict[str, Any] = {}
    if any("view" in entry for entry in body.get("access") or ()):
        raise NotImplementedConstruct("authorized view in the access of a dataset")
    if "location" in body and normalize_location(body["location"]) != dataset.location:
        raise Invalid(
            f"Location of dataset {dataset.id} is [{dataset.location}] and cannot become [{body['location']}]."
        )
    if "labels" in body:
        changes["labels"] = merged_labels(dataset.labels, body["labels"])
        check_labels(changes["labels"])
    for field in _EXPIRATIONS.keys() & body.keys():
        changes[_EXPIRATIONS[field]] = int(body[field] or 0) or None  # 0 removes the default
    return replace(dataset, **changes)


def merged_labels(before: Mapping[str, str], requested: Mapping[str, str | None] | None) -> dict[str, str]:
    """The labels after a request. A null value removes a label; null in place of all labels removes all."""
    if requested is None:
        return {}
    merged = {**before, **requested}
    return {key: str(value) for key, value in merged.items() if value is not None}
