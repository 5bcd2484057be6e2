"""When the last version of a deleted object is gone. Source: "Object Lifecycle Management", conditions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from google.cloud.storage.bucket import Bucket

from dedup_clone.state.store import ObjectStore

DELETED_AT = datetime(2026, 1, 1, tzinfo=UTC)
NONCURRENT = {"daysSinceNoncurrentTime": 30}


def days_until_end(*rules: dict[str, Any]) -> int | None:
    """How many days versions stay in a bucket with versioning, these lifecycle rules, and a soft delete of a day."""
    properties = {
        "versioning": {"enabled": True},
        "lifecycle": {"rule": list(rules)},
        "softDeletePolicy": {"retentionDurationSeconds": "86400"},
    }
    client = Mock()
    bucket = Bucket(client, "state")
    bucket._set_properties(properties)
    bucket.reload = Mock()  # type: ignore[method-assign]
    client.bucket.return_value = bucket
    end = ObjectStore(client, "state").versions_end(DELETED_AT)
    return None if end is None else (end - DELETED_AT) // timedelta(days=1)


def rule(condition: dict[str, Any], action: str = "Delete") -> dict[str, Any]:
    return {"action": {"type": action, "storageClass": "NEARLINE"}, "condition": condition}


def test_versions_stay_until_the_first_rule_deletes_them_and_then_as_long_as_deleted_objects() -> None:
    later = {"daysSinceNoncurrentTime": 90, "isLive": False}
    assert days_until_end(rule(NONCURRENT), rule(later)) == 31


@pytest.mark.parametrize(
    "other",
    [
        rule(NONCURRENT, action="SetStorageClass"),
        rule({**NONCURRENT, "matchesPrefix": ["tmp/"]}),
        rule({**NONCURRENT, "numNewerVersions": 3}),
        rule({"age": 30}),
    ],
)
def test_a_rule_that_does_not_delete_all_former_versions_ends_none(other: dict[str, Any]) -> None:
    assert days_until_end(other) is None
    assert days_until_end(other, rule({"daysSinceNoncurrentTime": 60})) == 61
