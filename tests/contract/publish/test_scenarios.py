"""What happens to a table around a publish, each run on the protocol and on the naive one.

The protocol must end in the oracle's table. The naive one must not: a scenario that it survives proves nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError

from dedup_clone.contract.errors import DedupCloneError
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.oracle import OracleDelivery, OracleState, OracleTable
from tests.contract.publish.naive_steps import NaiveSteps
from tests.contract.publish.protocol_steps import ProtocolSteps, Steps

TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))
BASE = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY), row(7, 4, day=YESTERDAY)]


def table_after(*snapshots: list[Row]) -> list[tuple[Any, ...]]:
    state = OracleState(TABLE)
    for rows in snapshots:
        state = state.apply([OracleDelivery(rows[0]["update_id"], rows)], TODAY - timedelta(days=700))
    return expected(*state.rows.values())


def a_failed_run_and_then_one_that_changes_other_dates(steps: Steps) -> list[tuple[Any, ...]]:
    """The failed run's rows lie in staging; nobody may publish them with the next run's."""
    steps.publish(steps.land(7, BASE))
    failed = steps.begin(steps.land(8, [row(8, 3, 99, day=YESTERDAY)]))
    steps.start_load(failed)
    steps.wait_for_load(failed)
    steps.world.dedup.refused_ids = {8}
    steps.publish(steps.land(9, [row(9, 1, 30)]))
    return table_after(BASE, [row(9, 1, 30)])


def a_load_that_outlives_its_dead_task(steps: Steps) -> list[tuple[Any, ...]]:
    """It commits between the checks and the swap of another run."""
    steps.publish(steps.land(7, BASE))
    late = steps.begin(steps.land(8, [row(8, 1, 99)]))
    steps.world.delay_jobs("load", 1.5)
    steps.start_load(late)
    steps.world.dedup.refused_ids = {8}
    after = steps.begin(steps.land(9, [row(9, 3, 30, day=YESTERDAY)]))
    steps.start_load(after)
    steps.wait_for_load(after)
    steps.check(after)
    steps.world.wait_for_all_jobs()
    steps.swap(after)
    steps.commit(after)
    return table_after(BASE, [row(9, 3, 30, day=YESTERDAY)])


def an_object_overwritten_between_dedup_and_load(steps: Steps) -> list[tuple[Any, ...]]:
    steps.publish(steps.land(7, BASE))
    second = [row(8, 1, 21), row(8, 2, 22)]
    attempt = steps.begin(steps.land(8, second))
    steps.world.overwrite(8, f"date={TODAY}/part-0.parquet", parquet_bytes([row(8, 1, 77), row(8, 2, 78)]))
    steps.start_load(attempt)
    steps.wait_for_load(attempt)
    steps.check(attempt)
    steps.swap(attempt)
    steps.commit(attempt)
    return table_after(BASE, second)


def a_rollback_and_then_an_arrival(steps: Steps) -> list[tuple[Any, ...]]:
    """What was rolled back stays out, although the next snapshot touches other rows only."""
    steps.publish(steps.land(7, BASE))
    steps.publish(steps.land(8, [row(8, 1, 99), row(8, 9, 99)]))
    steps.roll_back(1)
    steps.publish(steps.land(9, [row(9, 2, 30)]))
    return table_after(BASE, [row(9, 2, 30)])


def a_downward_correction(steps: Steps) -> list[tuple[Any, ...]]:
    steps.publish(steps.land(7, BASE))
    steps.publish(steps.land(8, [row(8, 1, 50), row(8, 2, 60)]))
    corrected = [row(8, 1, 40), row(8, 2, 10)]
    steps.publish(steps.land(8, corrected))
    return table_after(BASE, corrected)


def two_publishes_from_one_parent(steps: Steps) -> list[tuple[Any, ...]]:
    """The first is taken for dead while it is slow; it wakes up after the second has published."""
    steps.publish(steps.land(7, BASE))
    slow = steps.begin(steps.land(8, [row(8, 1, 31)]))
    steps.publish(steps.land(9, [row(9, 2, 32)]))
    with contextlib.suppress(DedupCloneError, GoogleAPICallError):
        steps.start_load(slow)
        steps.wait_for_load(slow)
        steps.check(slow)
        steps.swap(slow)
        steps.commit(slow)
    return table_after(BASE, [row(8, 1, 31)], [row(9, 2, 32)])


def a_crash_between_swap_and_commit(steps: Steps) -> list[tuple[Any, ...]]:
    steps.publish(steps.land(7, BASE))
    dead = steps.begin(steps.land(8, [row(8, 1, 31), row(8, 5, 35)]))
    steps.start_load(dead)
    steps.wait_for_load(dead)
    steps.check(dead)
    steps.swap(dead)
    steps.publish(steps.land(9, [row(9, 2, 32)]))
    return table_after(BASE, [row(8, 1, 31), row(8, 5, 35)], [row(9, 2, 32)])


Scenario = Callable[[Steps], list[tuple[Any, ...]]]
SCENARIOS: list[Scenario] = [
    a_failed_run_and_then_one_that_changes_other_dates,
    a_load_that_outlives_its_dead_task,
    an_object_overwritten_between_dedup_and_load,
    a_rollback_and_then_an_arrival,
    a_downward_correction,
    two_publishes_from_one_parent,
    a_crash_between_swap_and_commit,
]


# The others have shorter tests: test_rollback.py, test_deliveries.py, test_fencing.py and test_protocol.py.
QUICK: list[Scenario] = [an_object_overwritten_between_dedup_and_load, two_publishes_from_one_parent]


@pytest.mark.parametrize(
    "scenario",
    [pytest.param(s, marks=() if s in QUICK else pytest.mark.exhaustive, id=s.__name__) for s in SCENARIOS],
)
def test_the_protocol_survives(scenario: Scenario, world: FeedOnStandIn) -> None:
    steps = ProtocolSteps(world)
    right = scenario(steps)
    assert steps.rows() == right
    assert world.services.current.read().intent is None


@pytest.mark.exhaustive
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_the_naive_protocol_does_not_survive(scenario: Scenario, world: FeedOnStandIn) -> None:
    steps = NaiveSteps(world)
    right = scenario(steps)
    assert steps.rows() != right
