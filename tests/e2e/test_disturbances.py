"""Publishes while something around them is disturbed: Airflow is down, a region is down, or the reporting tables are.

However many markers land at once, each delivery gets a run of its own, and one swap publishes all of them.
"""

from __future__ import annotations

import time
from contextlib import nullcontext

import pytest

from testkit.stack import Stack
from testkit.waiting import wait_for
from tests.e2e.feeds import DISTURBED as FEED
from tests.e2e.landed_deliveries import Deliveries

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

AIRFLOW = ("scheduler", "triggerer", "dag_processor", "api_server")
OUTAGE_S = 60.0


@pytest.mark.parametrize("is_airflow_down", [False, True])
def test_markers_at_once_give_a_run_each_and_one_swap(
    stack: Stack, deliveries: Deliveries, is_airflow_down: bool
) -> None:
    deliveries.publish(FEED)
    before = len(stack.ledger(FEED))
    with stack.stopped(*AIRFLOW) if is_airflow_down else nullcontext():
        runs = deliveries.land(FEED, 12)
    stack.wait_until_healthy()
    stack.assert_published(FEED, *runs)
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
