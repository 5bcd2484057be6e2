"""How a rollback's preview describes what changes on a date."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from dedup_clone.contract.manifest import DateEntry, DateOutcome
from dedup_clone.publish.previews.date_difference import describe_difference

NOT_KNOWN = "not known without reading rows"


def entry(**changes: Any) -> DateEntry:
    known = {
        "rows": 2,
        "survivors": 0,
        "key_fingerprint": "a",
        "content_fingerprint": "b",
        "files_digest": "",
    } | changes
    unused = {"new_keys": 0, "changed": 0, "ties": 0, "plan": DateOutcome.ADOPT, "plan_reason": "", "min_update_id": 1}
    return DateEntry(date=date(2026, 6, 1), max_update_id=1, adopted_delivery=None, **known, **unused)


@pytest.mark.parametrize(
    ("restored", "text"),
    [
        (entry(), "same keys and values, but for update ids or files"),
        (entry(content_fingerprint="c"), "same keys, other values"),
        (entry(key_fingerprint="c"), "other keys"),
        (entry(rows=3), "other keys"),
        (entry(survivors=1), NOT_KNOWN),
        (entry(key_fingerprint=None), NOT_KNOWN),
        (None, "all its rows vanish"),
    ],
)
def test_a_date_is_described_by_its_fingerprints_if_they_tell_something(restored: DateEntry | None, text: str) -> None:
    assert describe_difference(entry(), restored, values_are_comparable=True) == text


def test_values_of_other_columns_are_not_compared() -> None:
    assert NOT_KNOWN in describe_difference(entry(), entry(), values_are_comparable=False)
    assert describe_difference(None, entry(), values_are_comparable=True) == "all its rows appear"
