"""TIMESTAMP values are encoded as the request asks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from devstack.bigquery.rest.row_encoding import timestamp_encoder


@pytest.mark.parametrize(
    ("output_format", "expected"),
    [
        ("INT64", "-62135596799999999"),
        ("FLOAT64", "-62135596799.999999"),
        ("ISO8601_STRING", "0001-01-01T00:00:00.000001Z"),
    ],
)
def test_the_first_year_is_encoded(output_format: str, expected: str) -> None:
    assert timestamp_encoder(False, output_format)(datetime(1, 1, 1, microsecond=1, tzinfo=UTC)) == expected
