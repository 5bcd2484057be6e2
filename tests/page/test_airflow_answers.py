"""The simulated answers of Airflow's REST API in the page's tests conform to Airflow's OpenAPI description."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import yaml
from airflow.api_fastapi.core_api import openapi
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator

from dedup_clone import page
from tests.page.serving import Api, busy_api

REQUESTS = (Path(page.__file__).parent / "static" / "airflow.js").read_text(encoding="utf-8")
RUNS = "/api/v2/dags/{dag_id}/dagRuns"
RUN = RUNS + "/{dag_run_id}"
TASK = RUN + "/taskInstances/{task_id}"
EXAMPLE = {
    "{dag_id}": "store_visits_rollback",
    "{dag_run_id}": "manual__1",
    "{task_id}": "show_difference",
    "{try_number}": "2",
    "{xcom_key}": "return_value",
    "/api/v2": "",
}


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    (file,) = Path(openapi.__file__).parent.glob("v2-*.yaml")
    described: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return described


def partial(value: Any) -> Any:
    """The description for an answer that may lack fields, but may have no field that the description lacks."""
    if isinstance(value, list):
        return [partial(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: partial(item) for name, item in value.items() if name != "required" or not isinstance(item, list)}
    closed = {"additionalProperties": False} if isinstance(kept.get("properties"), dict) else {}
    return {**closed, **kept}


def faults(description: dict[str, Any], content: dict[str, Any], value: Any) -> list[str]:
    schema = content["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**schema, "components": description["components"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]


def answer_faults(description: dict[str, Any], path: str, method: str, answer: Any) -> list[str]:
    responses = description["paths"][path][method]["responses"]
    (good,) = (response for status, response in responses.items() if status.startswith("2"))
    return faults(description, good, answer)


def asked(pattern: str) -> set[str]:
    """The query parameters that the page's script sends in the request that the pattern finds."""
    found = re.search(pattern, REQUESTS)
    assert found
    return set(parse_qs(found[1]))


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (RUN + "/hitlDetails", r"const query = `(.*?)`"),
        (RUN + "/taskInstances", r"taskInstances\?(.*?)&\$"),
        (TASK + "/logs/{try_number}", r"logs/\$\{tries\}\?(.*?)`"),
    ],
)
def test_the_page_asks_with_parameters_that_airflow_knows(description: dict[str, Any], path: str, query: str) -> None:
    known = {one["name"] for one in description["paths"][path]["get"]["parameters"] if one["in"] == "query"}
    assert asked(query) <= known


def test_open_approvals_and_tasks_at_work_are_answered_as_airflow_does(description: dict[str, Any]) -> None:
    client = TestClient(busy_api(datetime.now(UTC)).routes())
    answer = client.get("/dags/~/dagRuns/~/hitlDetails").json()
    assert answer_faults(description, RUN + "/hitlDetails", "get", answer) == []
    answer = client.get("/dags/x_publish/dagRuns/1/taskInstances").json()
    assert answer_faults(description, RUN + "/taskInstances", "get", answer) == []


@pytest.mark.parametrize("path", [RUN, TASK, TASK + "/logs/{try_number}", TASK + "/xcomEntries/{xcom_key}"])
def test_a_started_run_is_answered_with_fields_of_airflow(description: dict[str, Any], path: str) -> None:
    log = [{"event": "fails", "error_detail": [{"exc_type": "E", "exc_value": "no"}]}]
    api, url = Api(states=["running"], log=log, tasks=[{"task_id": "commit_generation", "state": "success"}]), path
    for name, value in EXAMPLE.items():
        url = url.replace(name, value)
    answer = TestClient(api.routes()).get(url).json()
    assert answer_faults(partial(description), path, "get", answer) == []


def test_a_run_is_started_as_airflow_asks(description: dict[str, Any]) -> None:
    assert "body: JSON.stringify({ logical_date: null, conf })" in REQUESTS
    body = {"logical_date": None, "conf": {"reason": "why"}}
    assert faults(description, description["paths"][RUNS]["post"]["requestBody"], body) == []
    answer = TestClient(Api().routes()).post("/dags/store_visits_rollback/dagRuns", json=body).json()
    assert answer_faults(partial(description), RUNS, "post", answer) == []


def test_the_final_task_states_are_those_of_airflow(description: dict[str, Any]) -> None:
    ended, at_work = (set(re.findall(r"\w+", found)) for found in re.findall(r"const [A-Z_]+ = \[(\".*?)\]", REQUESTS))
    known = set(description["components"]["schemas"]["TaskInstanceState"]["enum"])
    assert (ended | at_work, ended & at_work) == (known, set())
