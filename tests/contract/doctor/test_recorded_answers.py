"""The recorded answers and the doctor's questions are those of Google's published API schemas."""

from __future__ import annotations

from functools import cache
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from requests import Response

from deploy.doctor.google_api import ApiError, GoogleApi
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import RecordedGoogle, answer, healthy
from tests.contract.doctor.doctor_findings import WITH_TAG, feed_with, findings
from tests.rest_schemas import described

READ_BY_POST = ":getIamPolicy"


def test_an_error_may_be_a_word() -> None:
    """As OAuth answers: RFC 6749, section 5.2."""

    class Refusing(RecordedGoogle):
        def request(self, *arguments: Any, **options: Any) -> Response:
            return answer(401, {"error": "invalid_token"})

    with pytest.raises(ApiError, match=r"status \[401\]: invalid_token"):
        GoogleApi(Refusing({})).get("https://bigquery.googleapis.com/")


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
    api, recorded = described(name), every_question()
    assert urlsplit(url).hostname == f"{name.partition('.')[0]}.googleapis.com"
    assert api.message_faults(schema, healthy()[url]) == []
    verb = "POST" if url.endswith(READ_BY_POST) else "GET"
    assert api.faults(verb, f"{url}?{urlencode(recorded.parameters[url])}", recorded.bodies[url] or None) == []
