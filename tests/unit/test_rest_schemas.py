"""The validation of requests finds what a service would ignore."""

from __future__ import annotations

from typing import Any

import pytest

from tests.request_validator import RequestValidator
from tests.rest_schemas import described

JOBS = "https://bigquery.googleapis.com/bigquery/v2/projects/p/jobs"
OBJECTS = "https://storage.googleapis.com/storage/v1/b/landing/o"
LOAD = {
    "sourceUris": ["gs://b/f"],
    "writeDisposition": "WRITE_TRUNCATE_DATA",
    "fileSetSpecType": "FILE_SET_SPEC_TYPE_FILE_SYSTEM_MATCH",
}


@pytest.mark.parametrize(
    ("api", "verb", "url", "body", "fault"),
    [
        ("bigquery", "POST", JOBS, {"configuration": {"load": {"fileSetSpecTyp": "x"}}}, "fileSetSpecTyp] is not"),
        ("bigquery", "POST", JOBS, {"configuration": {"load": {"sourceUris": "gs://b/f"}}}, "expected a list"),
        ("bigquery", "POST", JOBS, {"configuration": {"query": {"useLegacySql": "no"}}}, "expected boolean"),
        ("bigquery", "POST", JOBS, {"configuration": {"jobTimeoutMs": "an hour"}}, "expected string"),
        ("bigquery", "POST", JOBS, {"configuration": "query"}, "expected an object"),
        ("bigquery", "GET", f"{JOBS}/j?locaton=EU", None, "query parameter [locaton]"),
        ("bigquery", "DELETE", f"{JOBS}/j", None, "no method of the API"),
        ("bigquery", "GET", f"{JOBS}/j", {"x": 1}, "takes no body"),
        ("storage", "GET", f"{OBJECTS}?fields=items(name,generatoin),nextPageToken", None, "field [items.generatoin]"),
        ("storage", "GET", f"{OBJECTS}?projection=all", None, "expected one of"),
        ("storage", "GET", f"{OBJECTS}?maxResults=many", None, "expected integer"),
        ("storage", "DELETE", f"{OBJECTS}/x?ifGenerationMatches=1", None, "query parameter [ifGenerationMatches]"),
    ],
)
def test_faults_are_found(api: str, verb: str, url: str, body: Any, fault: str) -> None:
    (found,) = described(api).faults(verb, url, body)
    assert fault in found


@pytest.mark.parametrize(
    ("api", "verb", "url", "body"),
    [
        ("bigquery", "POST", JOBS, {"configuration": {"load": LOAD, "labels": {"a": "b"}, "jobTimeoutMs": "60"}}),
        ("bigquery", "PATCH", JOBS.replace("/jobs", "/datasets/d/tables/t"), {"schema": {"fields": [{"name": "a"}]}}),
        ("storage", "GET", f"{OBJECTS}?fields=items(name,metadata/a),nextPageToken&prefix=a%2Fb", None),
        ("storage", "GET", f"{OBJECTS}/a%2Fb?alt=media&generation=7".replace("/storage/", "/download/storage/"), None),
        ("storage", "POST", f"{OBJECTS}?uploadType=multipart".replace("/storage/", "/upload/storage/"), {"name": "x"}),
        ("storage", "POST", f"{OBJECTS}/a/rewriteTo/b/c/o/d?ifSourceGenerationMatch=4", {}),
    ],
)
def test_what_the_services_know_is_no_fault(api: str, verb: str, url: str, body: Any) -> None:
    assert described(api).faults(verb, url, body) == []


def test_uploads_and_batches_are_taken_apart() -> None:
    validator = RequestValidator()
    upload = (
        b'--x\r\ncontent-type: application/json\r\n\r\n{"nam": "a"}\r\n'
        b"--x\r\ncontent-type: text/plain\r\n\r\nhi\r\n--x--"
    )
    url = f"{OBJECTS}?uploadType=multipart".replace("/storage/", "/upload/storage/")
    validator.validate("POST", url, upload, {"content-type": b'multipart/related; boundary="x"'})
    batch = (
        "--y\r\nContent-Type: application/http\r\n\r\n"
        "DELETE /storage/v1/b/landing/o/a?generatoin=1 HTTP/1.1\r\n\r\n--y--"
    )
    validator.validate("POST", "https://h/batch/storage/v1", batch, {"Content-Type": 'multipart/mixed; boundary="y"'})
    assert [fault.rsplit(": ", 1)[1] for fault in validator.faults] == [
        "[Object.nam] is not known",
        "query parameter [generatoin] of storage.objects.delete is not known",
    ]
    assert validator.validated == 2


def test_what_cannot_be_read_is_a_fault_and_no_crash() -> None:
    validator = RequestValidator()
    validator.validate("POST", JOBS, b"{not json", {"Content-Type": "application/json"})
    validator.validate("POST", "https://h/batch/storage/v1", b"", {})
    assert validator.faults[0].startswith(f"POST {JOBS}: cannot be read")
