"""The recorded answers and the doctor's questions are those of Google's published API schemas."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import googleapiclient
import pytest
from requests import Response

from deploy.doctor.google_api import ApiError, GoogleApi
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import RecordedGoogle, answer, healthy
from tests.contract.doctor.doctor_findings import WITH_TAG, feed_with, findings

READ_BY_POST = ":getIamPolicy"
DOCUMENTS = Path(googleapiclient.__file__).parent / "discovery_cache" / "documents"


def test_an_error_may_be_a_word() -> None:
    """As OAuth answers: RFC 6749, section 5.2."""

    class Refusing(RecordedGoogle):
        def request(self, *arguments: Any, **options: Any) -> Response:
            return answer(401, {"error": "invalid_token"})

    with pytest.raises(ApiError, match=r"status \[401\]: invalid_token"):
        GoogleApi(Refusing({})).get("https://bigquery.googleapis.com/")


def departures(value: Any, schema: dict[str, Any], schemas: dict[str, Any], where: str) -> Iterator[str]:
    """What the schema does not know, and what it knows as something else."""
    schema = schemas[schema["$ref"]] if "$ref" in schema else schema
    kind = schema.get("type", "")
    types = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
    if kind == "object" and "properties" not in schema:
        return
    if kind in types and not isinstance(value, types[kind]):
        yield f"{where}: {value!r} is no {kind}"
    elif kind == "object":
        for name, inner in value.items():
            if name in schema["properties"]:
                yield from departures(inner, schema["properties"][name], schemas, f"{where}.{name}")
            else:
                yield f"{where}.{name} is not known"
    elif kind == "array":
        for inner in value:
            yield from departures(inner, schema["items"], schemas, f"{where}[]")
    elif kind == "string" and value not in schema.get("enum", [value]):
        yield f"{where}: {value!r} is none of {schema['enum']}"


@cache
def every_question() -> RecordedGoogle:
    """What is asked of a healthy environment, for each runner."""
    recorded = RecordedGoogle(healthy())
    with feed_with(WITH_TAG):
        findings(recorded, runner="serverless")
        findings(recorded, runner="cluster")
        findings(recorded, runner="bigquery_procedure", procedure_connection="my-project.eu.spark")
    return recorded


@pytest.mark.parametrize("url", sorted(google.SCHEMAS))
def test_questions_and_answers_are_those_of_the_published_apis(url: str) -> None:
    name, schema = google.SCHEMAS[url]
    document = json.loads((DOCUMENTS / f"{name}.json").read_text())
    assert list(departures(healthy()[url], document["schemas"][schema], document["schemas"], url)) == []
    recorded = every_question()
    verb = "POST" if url.endswith(READ_BY_POST) else "GET"
    (method,) = [
        method
        for method in methods(document)
        if method["httpMethod"] == verb and re.fullmatch(address_of(document, method), url)
    ]
    assert method["response"]["$ref"] == schema
    assert set(recorded.parameters[url]) <= set(method["parameters"]) | set(document["parameters"])
    if "request" in method:
        request = document["schemas"][method["request"]["$ref"]]
        assert list(departures(recorded.bodies[url], request, document["schemas"], url)) == []
    else:
        assert not recorded.bodies[url]


def methods(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from methods(inner)


def address_of(document: dict[str, Any], method: dict[str, Any]) -> str:
    path = method.get("flatPath", method["path"])
    parts = re.split(r"\{[^}]+\}", path)
    root = re.sub(r"^https://www\.", f"https://{document['name']}.", document["rootUrl"])
    return re.escape(root + document["servicePath"]) + "[^/:]+".join(re.escape(part) for part in parts)
