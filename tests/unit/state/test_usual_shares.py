"""Which publishes tell how many rows usually differ."""

from __future__ import annotations

from typing import Any

import pytest

from dedup_clone.state.ledger import Outcome
from tests.shared.freshness_states import record


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({}, True),
        ({"parent": None}, False),
        ({"lag_s": None}, False),
        ({"outcome": Outcome.FAILED}, False),
        ({"restores": 5}, False),
        ({"rebuilt": True}, False),
    ],
    ids=["a publish", "the first publish", "a replay", "a failed attempt", "a rollback", "a rebuild"],
)
def test_only_publishes_of_new_deliveries_on_a_parent_have_usual_shares(changes: dict[str, Any], counts: bool) -> None:
    assert record(8, **{"parent": 7, **changes}).has_usual_shares is counts
