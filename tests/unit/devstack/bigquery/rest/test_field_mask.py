"""Partial responses by the `fields` parameter."""

from __future__ import annotations

from typing import Any

import pytest

from devstack.bigquery.bigquery_errors import Invalid
from devstack.bigquery.rest.field_mask import apply_mask, parse_mask

ANSWER = {"id": "x", "jobs": [{"id": "a", "status": {"state": "DONE", "errors": []}}], "etag": "e"}


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        ("id", {"id": "x"}),
        ("id,etag", {"id": "x", "etag": "e"}),
        ("jobs/status/state", {"jobs": [{"status": {"state": "DONE"}}]}),
        ("etag,jobs(id,status(state))", {"jobs": [{"id": "a", "status": {"state": "DONE"}}], "etag": "e"}),
        ("*", ANSWER),
        ("absent", {}),
        ("jobs/id,jobs(status/state)", {"jobs": [{"id": "a", "status": {"state": "DONE"}}]}),
        ("jobs/status/state,jobs", {"jobs": ANSWER["jobs"]}),
    ],
)
def test_mask_keeps_the_chosen_fields(mask: str, expected: dict[str, Any]) -> None:
    assert apply_mask(ANSWER, parse_mask(mask)) == expected


@pytest.mark.parametrize("mask", ["", "a(b", "a)", "a,,b"])
def test_malformed_masks_are_refused(mask: str) -> None:
    with pytest.raises(Invalid, match="Invalid field selection"):
        parse_mask(mask)
