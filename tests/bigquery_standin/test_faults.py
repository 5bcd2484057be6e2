"""Faults apply to the n-th match only, and those that make no sense are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bigquery_standin.warehouse import PROJECT, Warehouse


def test_a_fault_fires_from_the_nth_match_for_its_times(warehouse: Warehouse) -> None:
    match = {"method": "get", "path": "/datasets"}
    with warehouse.fault(match=match, effect="error", status=503, nth=2, times=2):
        url = f"/bigquery/v2/projects/{PROJECT}/datasets"
        assert [warehouse.http.get(url).status_code for _ in range(5)] == [200, 503, 503, 200, 200]
        assert warehouse.http.get(f"/bigquery/v2/projects/{PROJECT}/jobs").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"effect": "error"},
        {"match": {}, "effect": "error"},
        {"match": {"method": "GET", "job_type": "load"}, "effect": "error"},
        {"match": {"method": "GET"}, "effect": "queue"},
        {"match": {"job_type": "load"}, "effect": "quota"},
        {"match": {"job_type": "load"}, "effect": "delay"},
        {"match": {"job_type": "load"}, "effect": "error", "nht": 1},
        {"match": {"path": "(jobs"}, "effect": "error"},
        {"match": {"job_id": 5}, "effect": "error"},
        {"match": {"method": "GET"}, "effect": "error", "nth": "second"},
        {"match": {"method": "GET"}, "effect": "delay", "seconds": None},
    ],
)
def test_impossible_faults_are_refused(shared: Warehouse, body: dict[str, Any]) -> None:
    assert shared.http.post("/_standin/faults", json=body).status_code == 400
