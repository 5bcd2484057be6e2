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
from tests.page.fake_airflow_api import Api
from tests.page.serving import site

REQUESTS = (Path(page.__file__).parent / "static" / "airflow.js").read_text(encoding="utf-8")
RUNS = "/api/v2/dags/{dag_id}/dagRuns"
RUN = RUNS + "/{dag_run_id}"
TASK, XCOM = RUN + "/taskInstances/{task_id}", "/xcomEntries/{xcom_key}"
EXAMPLE = {"{dag_id}": "store_visits_rollback", "{dag_run_id}": "manual__1", "{task_id}": "show_difference"}


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    (file,) = Path(openapi.__file__).parent.glob("v2-*.yaml")
    described: dict[str, Any] = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return described


def operation(description: dict[str, Any], path: str, method: str = "get") -> dict[str, Any]:
    described: dict[str, Any] = description["paths"][path][method]
    return described


def faults(description: dict[str, Any], described: dict[str, Any], answer: Any) -> list[str]:
    """What is wrong with the answer, with the position of each fault."""
    (good,) = (response for status, response in described["responses"].items() if status.startswith("2"))
    schema = good["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**schema, "components": description["components"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(answer)]


def partial(value: Any) -> Any:
    """The description for an answer that may lack fields, but may have no field that the description lacks."""
    if isinstance(value, list):
        return [partial(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {name: partial(item) for name, item in value.items() if name != "required" or not isinstance(item, list)}
    closed = {"additionalProperties": False} if isinstance(kept.get("properties"), dict) else {}
    return {**closed, **kept}


def parameters(described: dict[str, Any]) -> set[str]:
    return {parameter["name"] for parameter in described["parameters"] if parameter["in"] == "query"}


def test_the_request_and_answer_for_open_approvals_conform(description: dict[str, Any]) -> None:
    described = operation(description, RUNS + "/{dag_run_id}/hitlDetails")
    query = re.search(r"const query = `(.*?)`", REQUESTS)
    assert query
    assert set(parse_qs(query[1])) <= parameters(described)
    answer = TestClient(site(datetime.now(UTC))).get("/api/v2/dags/~/dagRuns/~/hitlDetails").json()
    assert faults(description, described, answer) == []


def test_the_request_and_answer_for_the_task_at_work_conform(description: dict[str, Any]) -> None:
    described = operation(description, RUNS + "/{dag_run_id}/taskInstances")
    query = re.search(r"taskInstances\?(.*?)&\$", REQUESTS)
    assert query
    assert {*parse_qs(query[1]), "state"} <= parameters(described)
    answer = TestClient(site(datetime.now(UTC))).get("/api/v2/dags/x_publish/dagRuns/1/taskInstances").json()
    assert faults(description, described, answer) == []


def test_the_final_task_states_are_those_of_airflow(description: dict[str, Any]) -> None:
    ended, at_work = (re.search(rf"const {name} = \[(.*?)\]", REQUESTS) for name in ("ENDED", "AT_WORK"))
    assert ended
    assert at_work
    known = set(description["components"]["schemas"]["TaskInstanceState"]["enum"])
    states = [set(re.findall(r"\w+", found[1])) for found in (ended, at_work)]
    assert (states[0] | states[1], states[0] & states[1]) == (known, set())


@pytest.mark.parametrize("path", [RUN, RUN + "/taskInstances", TASK, TASK + "/logs/{try_number}", TASK + XCOM])
def test_the_answers_on_a_started_run_conform(description: dict[str, Any], path: str) -> None:
    described = operation(description, path)
    asked = re.search(r"logs/\$\{tries\}\?(.*?)`", REQUESTS)
    assert asked
    if "logs" in path:
        assert set(parse_qs(asked[1])) <= parameters(described)
    log = [{"event": "fails", "error_detail": [{"exc_type": "E", "exc_value": "no"}]}]
    api = Api(states=["running"], log=log, tasks=[{"task_id": "commit_generation", "state": "success"}])
    url = path.removeprefix("/api/v2").replace("{try_number}", "2").replace("{xcom_key}", "return_value")
    for name, value in EXAMPLE.items():
        url = url.replace(name, value)
    answer = TestClient(api.routes()).get(url).json()
    assert faults(partial(description), partial(described), answer) == []


def test_the_request_that_starts_a_run_conforms(description: dict[str, Any]) -> None:
    described = operation(description, RUNS, "post")
    body = {"logical_date": None, "conf": {"reason": "why"}}
    assert "body: JSON.stringify({ logical_date: null, conf })" in REQUESTS
    schema = described["requestBody"]["content"]["application/json"]["schema"]
    validator = Draft202012Validator({**schema, "components": description["components"]})
    assert not list(validator.iter_errors(body))
    answer = TestClient(Api().routes()).post("/dags/store_visits_rollback/dagRuns", json=body).json()
    assert faults(partial(description), partial(described), answer) == []
