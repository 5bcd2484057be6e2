"""A feed belongs to one environment: the stack's Airflow, or a second one that this process stands for."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from dedup_clone.contract.errors import FeedHeldElsewhere
from dedup_clone.settings.feed import read_feed
from deploy.__main__ import main
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.stack import Stack
from testkit.stack_snapshots import as_tuples
from tests.e2e.feeds import CONTESTED as FEED
from tests.e2e.landed_deliveries import small_snapshot

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

SECOND_ENVIRONMENT = "second.example.org"
CHECKED_AGAIN_S = 900.0  # an environment checks every five minutes whether it may publish a feed again


def test_only_the_environment_that_has_the_feed_publishes_it(stack: Stack) -> None:
    feed = read_feed(stack.layout.dags_folder / "feeds" / f"{FEED}.yaml")
    second = FeedOnStandIn(feed, stack.storage, stack.bigquery)
    second.environment = SECOND_ENVIRONMENT
    with stack.stopped("triggerer"):  # Airflow does not notice the first delivery before the second environment has it
        first = second.land(1, small_snapshot(1))
        second.publish(first)
    rows = stack.rows(FEED)
    landed = stack.land(FEED, 2, small_snapshot(2))
    refused = stack.start(f"{FEED}_publish", snapshot_id="1", reason="who holds it?")
    assert stack.wait_for_run(FEED, refused, timeout_s=CHECKED_AGAIN_S) == "failed"
    assert SECOND_ENVIRONMENT in stack.task_log(FEED, refused, "resolve_publish")
    assert stack.rows(FEED) == rows

    with patch.dict("os.environ", stack.variables):
        assert main(["move-feed", FEED, "--from", SECOND_ENVIRONMENT, "--to", "local"], stack.layout.dags_folder) == 0
    assert stack.wait_for_run(FEED, landed, timeout_s=CHECKED_AGAIN_S) == "success"
    assert stack.run_ids(FEED) == sorted([refused, landed]), "none for what the second environment published"
    assert set(as_tuples(small_snapshot(2))) <= set(stack.rows(FEED))
    with pytest.raises(FeedHeldElsewhere):
        second.resolve(first, replay=True, reason="it is back")
    assert stack.current(FEED)["intent"] is None
