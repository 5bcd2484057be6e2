"""The row of the status table says whether a replay or a rollback made what readers see."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from dedup_clone.publish.records.reporting_tables import record_attempt
from dedup_clone.publish.records.status_table import status_row
from dedup_clone.state.feed_status import StatusRows
from testkit.feed_on_stand_in import FeedOnStandIn
from tests.shared.page_indexes import record


@pytest.mark.parametrize(
    ("made_by", "replay", "restores"),
    [({}, False, None), ({"lag_s": None}, True, None), ({"lag_s": None, "restores": 1}, False, 1)],
    ids=["publish", "replay", "rollback"],
)
def test_the_row_tells_a_replay_and_a_rollback(
    world: FeedOnStandIn, made_by: dict[str, Any], replay: bool, restores: int | None
) -> None:
    attempt = record(3, datetime.now(UTC), 60.0, feed=world.feed.feed)
    record_attempt(world.services, replace(attempt, **made_by), ())
    (row,) = [status_row(r) for r in StatusRows(world.services.store).read() if r.feed == world.feed.feed]
    assert (row["generation"], row["replay"], row["restores"]) == (3, replay, restores)
