"""Checks in each test of this folder that the requests to BigQuery and Cloud Storage agree with Google's descriptions.

The stand-in and fake-gcs-server may accept fields that the services do not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.request_validator import RequestValidator
from tests.request_validator import request_validator as request_validator

# The tests in this folder send wrong requests on purpose, to see how the stand-in answers.
WRONG_ON_PURPOSE = Path(__file__).parent / "bigquery"


@pytest.fixture(autouse=True)
def requests_are_well_formed(request: pytest.FixtureRequest, request_validator: RequestValidator) -> Iterator[None]:
    request_validator.faults.clear()
    yield
    if not request.path.is_relative_to(WRONG_ON_PURPOSE):
        assert request_validator.faults == []
