"""Requests are checked against Google's discovery document and the supported fields."""

from __future__ import annotations

from typing import Any

import pytest

from devstack.bigquery.bigquery_errors import Invalid, NotImplementedConstruct
from devstack.bigquery.rest.request_validation import check_body, check_parameters
from devstack.bigquery.rest.supported_methods import METHODS

BY_ID = {method.id: method for method in METHODS}
LOAD = {"destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "t"}, "sourceUris": ["gs://b/o"]}


def job(**load: Any) -> dict[str, Any]:
    return {"configuration": {"load": {**LOAD, **load}}}


@pytest.mark.parametrize(
    "body",
    [
        job(),
        job(autodetect=False, maxBadRecords=0, schemaUpdateOptions=[], ignoreUnknownValues=None),
        job(schema={"fields": [{"name": "a", "type": "STRING"}]}),
        job(destinationTableProperties={"labels": {"any": "key"}}),
    ],
    ids=["plain", "spelt defaults", "schema", "labels"],
)
def test_supported_bodies_pass(body: dict[str, Any]) -> None:
    check_body(BY_ID["jobs.insert"], body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"configuratoin": {}}, 'Unknown name "configuratoin": Cannot find field'),
        (job(writeDispositoin="x"), "Unknown name \"writeDispositoin\" at 'configuration.load'"),
        (job(sourceUris="gs://b/o"), "'configuration.load.sourceUris': expected an array"),
        (job(autodetect=[1]), r"'configuration.load.autodetect': expected \[boolean\]"),
        ({"configuration": []}, "'configuration': expected an object"),
    ],
)
def test_bodies_that_bigquery_does_not_know_are_invalid(body: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        check_body(BY_ID["jobs.insert"], body)


@pytest.mark.parametrize(
    ("body", "construct"),
    [
        (job(autodetect=True), "configuration.load.autodetect"),
        (job(parquetOptions={"mapTargetType": "ARRAY_OF_STRUCT"}), "configuration.load.parquetOptions.mapTargetType"),
        (job(encoding="UTF-16LE"), "configuration.load.encoding = UTF-16LE"),
        ({"configuration": {"copy": {"sourceTable": LOAD["destinationTable"]}}}, "configuration.copy"),
        ({"configuration": {"reservation": "none"}}, "configuration.reservation"),
        ({"configuration": {"query": {"query": "SELECT 1", "useLegacySql": True}}}, "useLegacySql = True"),
    ],
)
def test_fields_that_are_not_carried_out_are_named(body: dict[str, Any], construct: str) -> None:
    with pytest.raises(NotImplementedConstruct, match=construct):
        check_body(BY_ID["jobs.insert"], body)


def test_read_only_fields_may_come_back() -> None:
    check_body(BY_ID["tables.update"], {"etag": "x", "numRows": "3", "description": "rows"})


def test_parameters_are_known_and_carried_out() -> None:
    check_parameters(BY_ID["tables.list"], {"maxResults": "1", "alt": "json"})
    check_parameters(BY_ID["tables.patch"], {"autodetect_schema": "False"})
    with pytest.raises(NotImplementedConstruct, match=r"autodetect_schema of tables\.patch"):
        check_parameters(BY_ID["tables.patch"], {"autodetect_schema": "true"})
    with pytest.raises(Invalid, match='Unknown name "maxResult"'):
        check_parameters(BY_ID["tables.list"], {"maxResult": "1"})
