"""Handlers of projects and datasets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from devstack.bigquery.errors import Invalid
from devstack.bigquery.rest.call import Answer, Call, page
from devstack.bigquery.rest.resources import check_etag, dataset_resource
from devstack.bigquery.service import StandIn
from devstack.bigquery.storage.model import Dataset, DatasetId

DEFAULT_LOCATION = "US"
TIME_TRAVEL_HOURS = range(48, 169, 24)


def normalised_location(location: str | None) -> str:
    """Multi-regions are upper case, regions lower case, as BigQuery answers."""
    if not location:
        return DEFAULT_LOCATION
    return location.upper() if location.upper() in ("US", "EU") else location.lower()


def list_projects(stand_in: StandIn, call: Call) -> Answer:
    names = sorted({dataset.id.project for dataset in stand_in.catalog.datasets.list()})
    items, token = page(names, call)
    projects = [
        {
            "kind": "bigquery#project",
            "id": name,
            "projectReference": {"projectId": name},
            "friendlyName": name,
        }
        for name in items
    ]
    body = {"kind": "bigquery#projectList", "projects": projects, "totalItems": len(names)}
    return Answer(body | ({"nextPageToken": token} if token else {}))


def insert_dataset(stand_in: StandIn, call: Call) -> Answer:
    reference = call.body.get("datasetReference") or {}
    if reference.get("projectId", call.project()) != call.project():
        raise Invalid(f"Dataset project [{reference['projectId']}] differs from the URL's [{call.project()}].")
    if not reference.get("datasetId"):
        raise Invalid("Required parameter is missing: datasetReference.datasetId")
    dataset = Dataset(
        DatasetId(call.project(), reference["datasetId"]), normalised_location(call.body.get("location")), 0, 0
    )
    created = stand_in.catalog.datasets.create(_changed(dataset, call.body))
    return Answer(dataset_resource(created, call.base_url))


def list_datasets(stand_in: StandIn, call: Call) -> Answer:
    found = stand_in.catalog.datasets.list(call.project(), hidden=call.flag("all"))
    items, token = page(found, call)
    keys = ("kind", "id", "datasetReference", "location", "labels", "friendlyName", "type")
    datasets = []
    for dataset in items:
        resource = dataset_resource(dataset, call.base_url)
        datasets.append({key: resource[key] for key in keys if key in resource})
    body: dict[str, Any] = {"kind": "bigquery#datasetList", "datasets": datasets}
    return Answer(body | ({"nextPageToken": token} if token else {}))


def get_dataset(stand_in: StandIn, call: Call) -> Answer:
    return Answer(dataset_resource(stand_in.catalog.datasets.get(_id(call)), call.base_url))


def patch_dataset(stand_in: StandIn, call: Call) -> Answer:
    def change(dataset: Dataset) -> Dataset:
        check_etag(call.headers, dataset_resource(dataset, call.base_url))
        return _changed(dataset, call.body)

    return Answer(dataset_resource(stand_in.catalog.datasets.update(_id(call), change), call.base_url))


def update_dataset(stand_in: StandIn, call: Call) -> Answer:
    """PUT: what the request leaves out goes back to its default."""

    def change(dataset: Dataset) -> Dataset:
        check_etag(call.headers, dataset_resource(dataset, call.base_url))
        return _changed(Dataset(dataset.id, dataset.location, dataset.created_us, dataset.modified_us), call.body)

    return Answer(dataset_resource(stand_in.catalog.datasets.update(_id(call), change), call.base_url))


def delete_dataset(stand_in: StandIn, call: Call) -> Answer:
    stand_in.catalog.drop_dataset(_id(call), call.flag("deleteContents"))
    return Answer(None, 204)


def _id(call: Call) -> DatasetId:
    return DatasetId(call.project(), call.path["dataset"])


def _changed(dataset: Dataset, body: Mapping[str, Any]) -> Dataset:
    changes: dict[str, Any] = {}
    if "location" in body and normalised_location(body["location"]) != dataset.location:
        raise Invalid(
            f"Location of dataset {dataset.id} is [{dataset.location}] and cannot become [{body['location']}]."
        )
    if "labels" in body:
        changes["labels"] = merged_labels(dataset.labels, body["labels"])
    for key, name in (("description", "description"), ("friendlyName", "friendly_name"),
                      ("storageBillingModel", "storage_billing_model")):  # fmt: skip
        if key in body:
            changes[name] = body[key] or None
    if "maxTimeTravelHours" in body:
        hours = int(body["maxTimeTravelHours"] or 168)
        if hours not in TIME_TRAVEL_HOURS:
            raise Invalid(f"maxTimeTravelHours is [{hours}], expected a multiple of 24 from 48 to 168.")
        changes["max_time_travel_hours"] = hours
    return replace(dataset, **changes)


def merged_labels(before: Mapping[str, str], given: Mapping[str, str | None] | None) -> dict[str, str]:
    """A label given as null is removed; null for all removes all."""
    if given is None:
        return {}
    merged = {**before, **given}
    return {key: str(value) for key, value in merged.items() if value is not None}
