"""Two Airflow environments on one feed's state: run ids are equal in both, and only one may publish."""

from __future__ import annotations

import copy
from unittest.mock import Mock

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred
from google.api_core.exceptions import Forbidden

from dedup_clone.audit.choose_partitions import choose_partitions
from dedup_clone.contract.errors import ConfigurationError, FeedHeldElsewhere, LostRace
from dedup_clone.contract.request import Duplicates
from dedup_clone.orchestration.publish import publish_steps
from dedup_clone.publish.bootstrap.resolve_bootstrap import BootstrapRequest
from dedup_clone.publish.environments import take_over_feed
from dedup_clone.publish.previews.bootstrap_preview import preview_bootstrap
from dedup_clone.publish.previews.dry_run import dry_run
from dedup_clone.publish.rebuild.rebuild_plan import RebuildRequest
from dedup_clone.publish.rebuild.resolve_rebuild import resolve_rebuild
from dedup_clone.publish.recovery import recover
from dedup_clone.publish.resolve import resolve
from dedup_clone.warehouse.bigquery import Warehouse
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from tests.contract.feed_setups import setup_of
from tests.contract.publish.operator_run import Run
from tests.contract.watch import Watch
from tests.shared.task_api import dag_run

FIRST, SECOND = [row(7, 1), row(7, 2)], [row(8, 1), row(8, 2)]


@pytest.fixture
def other(world: FeedOnStandIn) -> FeedOnStandIn:
    """The second environment; no run of the first one is running as far as its Airflow knows."""
    other = copy.copy(world)
    other.environment, other.running = "new.example.org", set()
    return other


def test_equal_run_ids_do_not_make_an_attempt_the_other_environments_own(
    world: FeedOnStandIn, other: FeedOnStandIn
) -> None:
    name = world.land(7, FIRST)
    spec = world.resolve(name)
    world.running.add(f"run-{name}")
    for publish in (resolve, dry_run):
        with pytest.raises(FeedHeldElsewhere, match=r"\[airflow.example.org\], and this one is \[new.*take_over"):
            publish(other.services, other.publish_request(name))
    world.deduplicate(spec)
    world.load(spec)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    assert world.rows() == expected(*FIRST)


def test_a_failed_run_cleans_up_nothing_of_the_other_environment(
    world: FeedOnStandIn, other: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.land(7, FIRST)
    spec = world.resolve(name)
    intent = world.services.current.require_intent(spec.attempt)
    monkeypatch.setattr(publish_steps, "open_feed_services", lambda setup: other.services)
    monkeypatch.setattr(publish_steps, "refresh_verdict", lambda setup: None)
    publish_steps._reconcile_failure(setup_of(other), {"dag_run": dag_run(intent.dag_id, intent.run_id)}, None)
    assert world.services.current.require_intent(spec.attempt) == intent


def test_the_other_environment_neither_bootstraps_nor_rolls_back_nor_rebuilds_nor_audits(
    world: FeedOnStandIn, other: FeedOnStandIn
) -> None:
    world.publish(world.land(7, FIRST))
    spec = world.resolve(world.land(8, SECOND))
    with pytest.raises(FeedHeldElsewhere):
        other.preview(1)
    request = BootstrapRequest("feed_bootstrap", "bootstrap", "", Duplicates.REFUSE, False, 0, "a test")
    with pytest.raises(FeedHeldElsewhere):  # before somebody approves it
        preview_bootstrap(other.services, request, 0)
    with pytest.raises(FeedHeldElsewhere):
        resolve_rebuild(other.services, RebuildRequest("feed_rebuild", "rebuild", "another form"), 1)
    assert world.services.current.require_intent(spec.attempt)
    assert "publishes the feed" in choose_partitions(other.services, None).reason


def test_the_watch_of_the_other_environment_registers_nothing(
    world: FeedOnStandIn, other: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, FIRST))
    watch = Watch(other, monkeypatch)
    watch.mark(8)
    with pytest.raises(TaskDeferred) as deferred:
        watch.sensor.execute({})  # type: ignore[typeddict-item]
    assert deferred.value.method_name == "resume_after_interval"
    assert watch.register() == []
    assert [d.snapshot_id for d in world.services.arrivals.deliveries()] == [7]


def test_a_takeover_recovers_what_the_first_environment_began_and_is_made_once(
    world: FeedOnStandIn, other: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, FIRST))
    name = world.land(8, SECOND)
    spec = world.resolve(name)
    world.deduplicate(spec)
    by_hand = Run(other, monkeypatch, "by-hand")
    with pytest.raises(AirflowFailException, match="has no dry run"):
        by_hand.resolve(take_over=True, reason="we move", dry_run=True)
    assert other.services.is_foreign(other.services.current.read())
    with pytest.raises(AirflowSkipException, match=r"took the feed over from \[airflow.example.org\]: we move"):
        by_hand.resolve(take_over=True, reason="we move")
    with pytest.raises(LostRace):
        world.load(spec)  # a task of the first environment that still runs
    with pytest.raises(FeedHeldElsewhere):
        resolve(world.services, world.publish_request(name))
    with pytest.raises(ConfigurationError, match="by this environment already"):
        take_over_feed(other.services, "to be sure")
    watch = Watch(other, monkeypatch)
    assert [run.split("__")[1] for run in watch.register()] == ["8"]
    other.publish(name)
    assert world.rows() == expected(*SECOND)


@pytest.mark.exhaustive
def test_a_takeover_commits_a_swap_that_happened(world: FeedOnStandIn, other: FeedOnStandIn) -> None:
    spec = world.resolve(world.land(7, FIRST))
    world.deduplicate(spec)
    world.load(spec)
    world.swap(spec, world.check(spec))
    take_over_feed(other.services, "it burnt down")
    current = other.services.current.read()
    assert (current.generation, current.intent, current.environment) == (1, None, "new.example.org")


def test_a_feed_that_no_environment_publishes_needs_no_takeover(world: FeedOnStandIn) -> None:
    with pytest.raises(ConfigurationError, match="No Airflow environment publishes"):
        take_over_feed(world.services, "to be sure")
    assert world.services.current.read().environment == ""


def test_a_takeover_from_an_account_whose_jobs_cannot_be_seen_is_refused_with_the_grant_to_give(
    world: FeedOnStandIn, other: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = world.resolve(world.land(7, FIRST))
    world.deduplicate(spec)
    world.load(spec)
    denied = {"reason": "accessDenied", "message": "Access Denied: Job local-dev:US.load"}
    with monkeypatch.context() as patch:
        hidden = Forbidden("Access Denied", errors=[denied])  # type: ignore[no-untyped-call]
        patch.setattr(Warehouse, "job", Mock(side_effect=hidden))
        grant = r"may not see.*Grant the account roles/bigquery\.resourceViewer on project \[local-dev\]"
        with pytest.raises(ConfigurationError, match=grant):
            take_over_feed(other.services, "it burnt down")
        assert world.services.current.require_intent(spec.attempt).environment == world.environment
        with pytest.raises(ConfigurationError, match=grant):
            recover(world.services, dag_id="other", run_id="other")
        assert world.services.current.require_intent(spec.attempt)
        slow = Forbidden("Quota exceeded", errors=[{"reason": "rateLimitExceeded"}])  # type: ignore[no-untyped-call]
        patch.setattr(Warehouse, "job", Mock(side_effect=slow))
        with pytest.raises(Forbidden, match="Quota"):
            take_over_feed(other.services, "it burnt down")
    take_over_feed(other.services, "it burnt down")
    assert other.services.current.read().intent is None


def test_a_feed_of_an_environment_whose_address_was_not_configured_belongs_to_none(
    world: FeedOnStandIn, other: FeedOnStandIn
) -> None:
    world.environment = "http://localhost:8080"
    world.publish(world.land(7, FIRST))
    world.resolve(world.land(8, SECOND))  # and dies
    other.publish(world.land(9, [row(9, 9)]))
    current = world.services.current.read()
    assert (current.environment, current.generation) == ("new.example.org", 3)
    assert world.rows() == expected(*SECOND, row(9, 9))
