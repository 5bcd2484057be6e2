"""What happens to a table around a publish, each run on the protocol and on the naive one.

The protocol must end in the oracle's table. The naive one must not: a scenario that it survives proves nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import pytest
from google.api_core.exceptions import Conflict, GoogleAPICallError

from dedup_clone.contract.errors import CheckFailed, DedupCloneError
from testkit import operations, runs
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.oracle import OracleDelivery, OracleState, OracleTable
from tests.contract.publish.naive_steps import NaiveSteps

TABLE = OracleTable("date", "update_id", ("date", "product_id", "store_id", "attribute_id"), ("attr_value",))
BASE = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY), row(7, 4, day=YESTERDAY)]


class Steps(Protocol):
    """The steps that a scenario may call. To let a run die, a scenario calls no further step of it."""

    world: FeedOnStandIn

    def begin(self, name: str) -> Any: ...
    def prepare_load(self, attempt: Any) -> None: ...
    def start_load(self, attempt: Any) -> None: ...
    def wait_for_load(self, attempt: Any) -> None: ...
    def check(self, attempt: Any) -> None: ...
    def swap(self, attempt: Any) -> None: ...
    def commit(self, attempt: Any) -> None: ...
    def publish(self, name: str) -> None: ...
    def roll_back(self, generation: int) -> None: ...


@dataclass
class ProtocolAttempt:
    run: runs.Run
    job: Any = None


class ProtocolSteps:
    """The steps with the product's protocol."""

    def __init__(self, world: FeedOnStandIn) -> None:
        self.world = world

    def begin(self, name: str) -> ProtocolAttempt:
        return ProtocolAttempt(runs.publish(self.world, name).until("dedup"))

    def prepare_load(self, attempt: ProtocolAttempt) -> None:
        attempt.job = attempt.run.prepare_load()

    def start_load(self, attempt: ProtocolAttempt) -> None:
        if attempt.job is None:
            self.prepare_load(attempt)
        attempt.job._begin()

    def wait_for_load(self, attempt: ProtocolAttempt) -> None:
        attempt.run.finish_load(attempt.job)

    def check(self, attempt: ProtocolAttempt) -> None:
        attempt.run.step("check")

    def swap(self, attempt: ProtocolAttempt) -> None:
        attempt.run.step("swap")

    def commit(self, attempt: ProtocolAttempt) -> None:
        attempt.run.step("commit")

    def publish(self, name: str) -> None:
        self.world.publish(name)

    def roll_back(self, generation: int) -> None:
        self.world.roll_back(generation)


def until_check(steps: Steps, name: str) -> Any:
    attempt = steps.begin(name)
    steps.start_load(attempt)
    steps.wait_for_load(attempt)
    steps.check(attempt)
    return attempt


def finish(steps: Steps, attempt: Any) -> None:
    steps.swap(attempt)
    steps.commit(attempt)


def table_after(*snapshots: list[Row]) -> list[tuple[Any, ...]]:
    state = OracleState(TABLE)
    for rows in snapshots:
        state = state.apply([OracleDelivery(rows[0]["update_id"], rows)], TODAY - timedelta(days=700))
    return expected(*state.rows.values())


def a_failed_run_and_then_one_that_changes_other_dates(steps: Steps) -> list[tuple[Any, ...]]:
    """The failed run's rows lie in staging; nobody may publish them with the next run's."""
    land = steps.world.land
    steps.publish(land(7, BASE))
    failed = steps.begin(land(8, [row(8, 3, 99, day=YESTERDAY)]))
    steps.start_load(failed)
    steps.wait_for_load(failed)
    steps.world.dedup.refused_ids = {8}
    steps.publish(land(9, [row(9, 1, 30)]))
    return table_after(BASE, [row(9, 1, 30)])


def a_load_that_outlives_its_dead_task(steps: Steps) -> list[tuple[Any, ...]]:
    """It commits between the checks and the swap of another run."""
    land = steps.world.land
    steps.publish(land(7, BASE))
    late = steps.begin(land(8, [row(8, 1, 99)]))
    steps.world.delay_jobs("load", 1.5)
    steps.start_load(late)
    steps.world.dedup.refused_ids = {8}
    after = until_check(steps, land(9, [row(9, 3, 30, day=YESTERDAY)]))
    steps.world.wait_for_all_jobs()
    finish(steps, after)
    return table_after(BASE, [row(9, 3, 30, day=YESTERDAY)])


def a_load_that_a_sleeping_task_makes_after_its_run_was_recovered(steps: Steps) -> list[tuple[Any, ...]]:
    """It has recorded the job, and makes it between load and check of another run. BigQuery rejects the fenced id."""
    land = steps.world.land
    steps.publish(land(7, BASE))
    sleeping = steps.begin(land(8, [row(8, 1, 99)]))
    steps.prepare_load(sleeping)
    steps.world.dedup.refused_ids = {8}
    after = steps.begin(land(9, [row(9, 3, 30, day=YESTERDAY)]))
    steps.start_load(after)
    steps.wait_for_load(after)
    with contextlib.suppress(Conflict):
        steps.start_load(sleeping)
    steps.world.wait_for_all_jobs()
    steps.check(after)
    finish(steps, after)
    return table_after(BASE, [row(9, 3, 30, day=YESTERDAY)])


def a_foreign_load_between_check_and_swap(steps: Steps) -> list[tuple[Any, ...]]:
    attempt = until_check(steps, steps.world.land(7, BASE))
    steps.world.query(f"INSERT INTO .{steps.world.feed.staging} (date, product_id) VALUES (CURRENT_DATE(), 9)")
    finish(steps, attempt)
    return table_after(BASE)


def a_foreign_publish_between_check_and_swap(steps: Steps) -> list[tuple[Any, ...]]:
    """Whoever replaced target says so in its labels: it is no longer what the attempt was built on."""
    steps.publish(steps.world.land(7, BASE))
    attempt = until_check(steps, steps.world.land(8, [row(8, 1, 99)]))
    labels = "[('dedup_clone_generation', '99')]"
    steps.world.query(f"ALTER TABLE .{steps.world.feed.target} SET OPTIONS (labels = {labels})")
    with contextlib.suppress(DedupCloneError, GoogleAPICallError):
        steps.swap(attempt)
    return table_after(BASE)


def a_snapshot_that_a_check_stops_and_then_a_clean_one(steps: Steps) -> list[tuple[Any, ...]]:
    """What was stopped is published by nobody but a person."""
    steps.world.configure(checks={"max_new_share": 0.2, "max_missing_dates": 9})
    steps.publish(steps.world.land(7, BASE))
    with contextlib.suppress(CheckFailed):
        steps.publish(steps.world.land(8, [row(8, product) for product in range(100, 140)]))
    steps.publish(steps.world.land(9, [row(9, 1, 30)]))
    return table_after(BASE, [row(9, 1, 30)])


def an_object_overwritten_between_dedup_and_load(steps: Steps) -> list[tuple[Any, ...]]:
    steps.publish(steps.world.land(7, BASE))
    second = [row(8, 1, 21), row(8, 2, 22)]
    attempt = steps.begin(steps.world.land(8, second))
    steps.world.overwrite(8, f"date={TODAY}/part-0.parquet", parquet_bytes([row(8, 1, 77), row(8, 2, 78)]))
    steps.start_load(attempt)
    steps.wait_for_load(attempt)
    steps.check(attempt)
    finish(steps, attempt)
    return table_after(BASE, second)


def a_rollback_and_then_an_arrival(steps: Steps) -> list[tuple[Any, ...]]:
    """What was rolled back stays out, although the next snapshot touches other rows only."""
    land = steps.world.land
    steps.publish(land(7, BASE))
    steps.publish(land(8, [row(8, 1, 99), row(8, 9, 99)]))
    steps.roll_back(1)
    steps.publish(land(9, [row(9, 2, 30)]))
    return table_after(BASE, [row(9, 2, 30)])


def a_downward_correction(steps: Steps) -> list[tuple[Any, ...]]:
    steps.publish(steps.world.land(7, BASE))
    steps.publish(steps.world.land(8, [row(8, 1, 50), row(8, 2, 60)]))
    corrected = [row(8, 1, 40), row(8, 2, 10)]
    steps.publish(steps.world.land(8, corrected))
    return table_after(BASE, corrected)


def two_publishes_from_one_parent(steps: Steps) -> list[tuple[Any, ...]]:
    """The first is taken for dead while it is slow; it wakes up after the second has published."""
    steps.publish(steps.world.land(7, BASE))
    slow = steps.begin(steps.world.land(8, [row(8, 1, 31)]))
    steps.publish(steps.world.land(9, [row(9, 2, 32)]))
    with contextlib.suppress(DedupCloneError, GoogleAPICallError):
        steps.start_load(slow)
        steps.wait_for_load(slow)
        steps.check(slow)
        finish(steps, slow)
    return table_after(BASE, [row(8, 1, 31)], [row(9, 2, 32)])


def a_crash_between_swap_and_commit(steps: Steps) -> list[tuple[Any, ...]]:
    steps.publish(steps.world.land(7, BASE))
    steps.swap(until_check(steps, steps.world.land(8, [row(8, 1, 31), row(8, 5, 35)])))
    steps.publish(steps.world.land(9, [row(9, 2, 32)]))
    return table_after(BASE, [row(8, 1, 31), row(8, 5, 35)], [row(9, 2, 32)])


SCENARIOS: list[Callable[[Steps], list[tuple[Any, ...]]]] = [
    a_failed_run_and_then_one_that_changes_other_dates,
    a_load_that_outlives_its_dead_task,
    a_load_that_a_sleeping_task_makes_after_its_run_was_recovered,
    a_foreign_load_between_check_and_swap,
    a_foreign_publish_between_check_and_swap,
    a_snapshot_that_a_check_stops_and_then_a_clean_one,
    an_object_overwritten_between_dedup_and_load,
    a_rollback_and_then_an_arrival,
    a_downward_correction,
    two_publishes_from_one_parent,
    a_crash_between_swap_and_commit,
]


@pytest.mark.parametrize("swap", ["clone", "copy"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_the_protocol_survives(scenario: Callable[[Steps], Any], world: FeedOnStandIn, swap: str) -> None:
    world.configure(publish={"swap": swap})
    right = scenario(ProtocolSteps(world))
    assert world.rows() == right
    operations.recover_lease(world)
    assert world.rows() == right


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_the_naive_protocol_does_not_survive(scenario: Callable[[Steps], Any], world: FeedOnStandIn) -> None:
    right = scenario(NaiveSteps(world))
    assert world.rows() != right
