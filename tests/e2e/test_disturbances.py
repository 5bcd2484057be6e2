"""Publishes while Airflow or a region is down, and while another environment has the feed.

This process stands for that environment. However many markers land at once, one swap publishes all of them.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from unittest.mock import patch

import pytest

from dedup_clone.contract.errors import FeedHeldElsewhere
from dedup_clone.settings.feed import read_feed
from deploy.__main__ import main
from testkit.feed_on_stand_in import FeedOnStandIn
from testkit.stack import Stack
from testkit.stack_snapshots import as_tuples
from testkit.waiting import wait_for
from tests.e2e.feeds import CONTESTED
from tests.e2e.feeds import DISTURBED as FEED
from tests.e2e.landed_deliveries import Deliveries, small_snapshot

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3600)]

AIRFLOW = ("scheduler", "triggerer", "dag_processor", "api_server")
OUTAGE_S = 60.0


@pytest.mark.parametrize("is_airflow_down", [False, True])
def test_markers_at_once_give_one_swap(stack: Stack, deliveries: Deliveries, is_airflow_down: bool) -> None:
    deliveries.publish(FEED)
    before = len(stack.ledger(FEED))
    with stack.stopped(*AIRFLOW) if is_airflow_down else nullcontext():
        deliveries.land(FEED, 12)
    stack.wait_until_healthy()
    deliveries.wait_until_published(FEED)
    deliveries.assert_consistent(FEED)
    assert len(stack.ledger(FEED)) == before + 1


def test_a_publish_goes_on_after_its_region_was_down(stack: Stack, deliveries: Deliveries) -> None:
    runs = deliveries.land(FEED)
    wait_for(lambda: stack.current(FEED)["intent"], f"run {runs} has the lease")
    with stack.stopped("bigquery", "fake_gcs"):
        time.sleep(OUTAGE_S)
    stack.assert_published(FEED, *runs)
    stack.wait_until_healthy()
    deliveries.assert_consistent(FEED)


SECOND_ENVIRONMENT = "second.example.org"
CHECKED_AGAIN_S = 900.0  # an environment checks every five minutes whether it may publish a feed again


def test_only_the_environment_that_has_the_feed_publishes_it(stack: Stack) -> None:
    feed = read_feed(stack.layout.dags_folder / "feeds" / f"{CONTESTED}.yaml")
    second = FeedOnStandIn(feed, stack.storage, stack.bigquery)
    second.environment = SECOND_ENVIRONMENT
    with stack.stopped("triggerer"):  # Airflow does not notice the first delivery before the second environment has it
        first = second.land(1, small_snapshot(1))
        second.publish(first)
    rows = stack.rows(CONTESTED)
    landed = stack.land(CONTESTED, 2, small_snapshot(2))
    refused = stack.start(f"{CONTESTED}_publish", snapshot_id="1", reason="who holds it?")
    assert stack.wait_for_run(CONTESTED, refused, timeout_s=CHECKED_AGAIN_S) == "failed"
    assert SECOND_ENVIRONMENT in stack.task_log(CONTESTED, refused, "resolve_publish")
    assert stack.rows(CONTESTED) == rows

    with patch.dict("os.environ", stack.variables):
        assert (
            main(["move-feed", CONTESTED, "--from", SECOND_ENVIRONMENT, "--to", "local"], stack.layout.dags_folder) == 0
        )
    assert stack.wait_for_run(CONTESTED, landed, timeout_s=CHECKED_AGAIN_S) == "success"
    assert stack.run_ids(CONTESTED) == sorted([refused, landed]), "none for what the second environment published"
    assert set(as_tuples(small_snapshot(2))) <= set(stack.rows(CONTESTED))
    with pytest.raises(FeedHeldElsewhere):
        second.resolve(first, replay=True, reason="it is back")
    assert stack.current(CONTESTED)["intent"] is None
