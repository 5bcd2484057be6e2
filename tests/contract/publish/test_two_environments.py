"""Two Airflow environments on one feed's state: run ids are equal in both, and only one may publish."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from google.api_core.exceptions import Forbidden

from dedup_clone.contract.errors import ConfigurationError, FeedHeldElsewhere, LostRace
from testkit import runs
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks, Watch
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from testkit.operations import Audit

FIRST, SECOND = [row(7, 1), row(7, 2)], [row(8, 1), row(8, 2)]


@pytest.fixture
def other(world: FeedOnStandIn) -> FeedOnStandIn:
    """The second environment; no run of the first one is running as far as its Airflow knows."""
    other = copy.copy(world)
    other.environment, other.running = "new.example.org", set()
    return other


def test_the_other_environment_starts_nothing_and_ends_nothing(
    world: FeedOnStandIn, other: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its runs have the same ids as the first one's."""
    world.publish(world.land(7, FIRST))
    name = world.land(8, SECOND)
    run = runs.publish(world, name).until("resolve")
    before = world.state.lease
    refused: list[Any] = [
        lambda: other.resolve(name),
        lambda: runs.dry_run_of(other, name),
        lambda: runs.rollback(other, 1).until("preview"),
        lambda: runs.bootstrap(other).until("preview"),
        lambda: runs.rebuild(other).until("preview"),
        lambda: runs.erasure(other, "product_id\n1\n").until("resolve"),
        lambda: runs.retire(other, "keep"),
    ]
    for start in refused:
        with pytest.raises(FeedHeldElsewhere):
            start()
    with pytest.raises(AirflowSkipException, match="publishes the feed"):
        Audit(other).step("choose")
    airflow = TaskApi(monkeypatch)
    failed = DagTasks(other, airflow, monkeypatch, "publish", f"run-{name}")
    failed.has_taken(run.spec)
    failed.execute("reconcile_failure")
    assert world.state.lease == before
    watch = Watch(other, airflow, monkeypatch)
    watch.mark(9)
    with pytest.raises(TaskDeferred) as deferred:
        watch.sensor.execute({})  # type: ignore[typeddict-item]
    assert deferred.value.method_name == "resume_after_interval"
    assert watch.register() == []
    assert len(world.state.deliveries("arrivals")) == 2
    run.finish()
    assert world.rows() == expected(*SECOND)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_takeover_recovers_what_the_first_environment_began_and_is_made_once(
    world: FeedOnStandIn, other: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, swapped: bool
) -> None:
    with pytest.raises(ConfigurationError, match="No Airflow environment publishes"):
        runs.take_over(other)
    world.publish(world.land(7, FIRST))
    name = world.land(8, SECOND)
    run = runs.publish(world, name).until("swap" if swapped else "load")
    form = {"take_over": True, "reason": "we move"}
    with runs.hidden_jobs(), pytest.raises(ConfigurationError, match=r"Grant the account roles/bigquery\.resourceV"):
        runs.take_over(other)
    with runs.hidden_jobs("rateLimitExceeded"), pytest.raises(Forbidden):
        runs.take_over(other)
    by_hand = DagTasks(other, TaskApi(monkeypatch), monkeypatch, "publish", **form)
    with pytest.raises(AirflowFailException, match="has no dry run"):
        by_hand.execute("resolve_publish", dry_run=True)
    assert world.state.current["environment"] == world.environment
    with pytest.raises(AirflowSkipException, match=r"took the feed over from \[airflow.example.org\]: we move"):
        by_hand.execute("resolve_publish", dry_run=False)
    with pytest.raises(LostRace):
        run.step("check")  # a task of the first environment that still runs
    with pytest.raises(FeedHeldElsewhere):
        world.resolve(name)
    with pytest.raises(ConfigurationError, match="by this environment already"):
        runs.take_over(other)
    if not swapped:
        other.publish(name)
    assert (world.rows(), world.state.current["environment"]) == (expected(*SECOND), "new.example.org")
