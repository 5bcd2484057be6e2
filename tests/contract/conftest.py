"""What this project sends to BigQuery and Cloud Storage in these tests says nothing that the services do not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.request_validator import RequestValidator

# Here requests are sent that are wrong on purpose, to see what the stand-in makes of them.
WRONG_ON_PURPOSE = Path(__file__).parent / "bigquery"


@pytest.fixture(scope="session")
def request_validator() -> Iterator[RequestValidator]:
    validator = RequestValidator()
    with pytest.MonkeyPatch.context() as patch:
        validator.install(patch)
        yield validator


@pytest.fixture(autouse=True)
def requests_are_well_formed(request: pytest.FixtureRequest, request_validator: RequestValidator) -> Iterator[None]:
    request_validator.faults.clear()
    yield
    if not request.path.is_relative_to(WRONG_ON_PURPOSE):
        assert request_validator.faults == []
