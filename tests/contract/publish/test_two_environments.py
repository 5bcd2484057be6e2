"""Two Airflow environments on one feed's state: run ids are equal in both, and only one may publish."""

from __future__ import annotations

import copy
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk.exceptions import AirflowFailException
from google.api_core.exceptions import Forbidden

from dedup_clone.contract.attempt import Kind
from dedup_clone.contract.errors import ConfigurationError, DedupCloneError, FeedHeldElsewhere
from deploy.__main__ import main
from testkit import deliveries, operations, runs, step_faults
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks, Watch
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from testkit.killed_writes import asleep_before_write

HELD = r"is published by Airflow environment \[airflow.example.org\], and this one is \[new.example.org\]"
FORMER = "airflow.example.org"
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
        lambda: deliveries.dry_run_of(other, name),
        lambda: runs.rollback(other, 1).until("preview"),
        lambda: runs.bootstrap(other).until("preview"),
        lambda: runs.rebuild(other).until("preview"),
        lambda: runs.erasure(other, "product_id\n1\n").until("resolve"),
        lambda: operations.retire(other, "keep"),
    ]
    for start in refused:
        with pytest.raises(FeedHeldElsewhere, match=rf"{HELD}.* run `python -m deploy move-feed {world.feed.feed} "):
            start()
    airflow = TaskApi(monkeypatch)
    failed = DagTasks(other, airflow, monkeypatch, "publish", f"run-{name}")
    failed.has_taken(run.plan)
    failed.execute("reconcile_failure")
    assert world.state.lease == before
    watch = Watch(other, airflow, monkeypatch)
    watch.mark(9)
    assert isinstance(watch.waits_for(), TimeDeltaTrigger)
    with pytest.raises(AirflowFailException, match=HELD):
        watch.register()
    assert len(world.state.deliveries("arrivals")) == 2
    run.finish()
    assert world.rows() == expected(*SECOND)


def test_runs_that_begin_at_the_same_time_in_both_environments_do_not_meet(
    world: FeedOnStandIn, other: FeedOnStandIn
) -> None:
    """The feed has no environment when both read CURRENT; the first lease decides."""
    name = world.land(7, FIRST)
    with asleep_before_write(1, lambda: world.resolve(name)) as first, pytest.raises(FeedHeldElsewhere, match=HELD):
        other.resolve(name)
    assert first
    lease = world.state.lease
    with pytest.raises(FeedHeldElsewhere, match=HELD):
        other.services.current.acquire_lease(
            other.services.environment, None, Kind.PUBLISH, dag_id="publish", run_id="second", now=datetime.now(UTC)
        )
    assert lease is not None
    assert world.state.lease == lease


class Mover:
    """The command that moves the world's feed, with the stand-in in place of Google's services."""

    def __init__(self, world: FeedOnStandIn, capsys: pytest.CaptureFixture[str]) -> None:
        self._feed, self._capsys = world.feed.feed, capsys

    def move(self, *options: str, former: str = FORMER) -> tuple[int, str]:
        """The exit status of the command, and what it prints."""
        status = main(["move-feed", self._feed, "--from", former, "--to", "new.example.org", *options])
        captured = self._capsys.readouterr()
        return status, captured.out + captured.err

    def refuse(self, reason: str, former: str = FORMER) -> None:
        status, shown = self.move(former=former)
        assert status == 1
        assert reason in shown
        assert "nothing was changed" in shown


@pytest.fixture
def mover(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Mover:
    monkeypatch.setenv("DEDUP_CLONE_PROFILE", "local")
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", world.bigquery._connection.API_BASE_URL)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", world.storage._connection.API_BASE_URL)
    return Mover(world, capsys)


def test_a_moved_feed_is_published_by_the_other_environment_only(
    world: FeedOnStandIn, other: FeedOnStandIn, mover: Mover
) -> None:
    mover.refuse("is published by no environment yet, not by [airflow.example.org]")
    world.publish(world.land(7, FIRST))
    mover.refuse("is published by environment [airflow.example.org], not by [misspelt]", former="misspelt")
    name = world.land(8, SECOND)
    run = runs.publish(world, name).until("check")
    before = world.state.current
    mover.refuse(f"of [{before['intent']['dag_id']}] in environment [airflow.example.org] works on feed")
    assert world.state.current == before
    run.finish()
    for _ in range(2):
        status, shown = mover.move()
        assert status == 0
        assert f"Unpause [{world.feed.feed}_watch] in [new.example.org]" in shown
    later = world.land(9, [row(9, 9)])
    with pytest.raises(FeedHeldElsewhere, match=r"move-feed .* --from new.example.org --to airflow.example.org`"):
        world.resolve(later)
    other.publish(later)
    assert (world.state.current["environment"], world.state.generation) == ("new.example.org", 3)
    assert world.rows() == expected(*SECOND, row(9, 9))


@pytest.mark.parametrize("swapped", [False, True])
def test_the_next_run_ends_what_an_environment_began_that_is_gone(
    world: FeedOnStandIn, other: FeedOnStandIn, mover: Mover, swapped: bool
) -> None:
    """Tasks of the former environment that still run do no harm."""
    world.publish(world.land(7, FIRST))
    name = world.land(8, SECOND)
    run = runs.publish(world, name).until("swap" if swapped else "check")
    assert mover.move("--from-is-gone")[0] == 0
    with (
        step_faults.hidden_jobs(),
        pytest.raises(ConfigurationError, match=r"Grant the account roles/bigquery\.resourceV"),
    ):
        other.resolve(name)
    with step_faults.hidden_jobs("rateLimitExceeded"), pytest.raises(Forbidden):
        other.resolve(name)
    assert world.state.lease is not None
    later = world.land(9, [row(9, 9)])
    other.publish(later)
    for step in ("check", "swap", "commit"):
        with suppress(DedupCloneError):
            run.step(step)
    assert (world.state.current["environment"], world.state.generation) == ("new.example.org", 3)
    assert world.rows() == expected(*SECOND, row(9, 9))
    second = (2, "published" if swapped else "failed")
    assert world.state.outcomes() == [(1, "published"), second, (3, "published")]
