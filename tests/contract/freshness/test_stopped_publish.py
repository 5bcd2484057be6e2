"""Why the newest delivery waits: which checks stopped it, before dedup or before the swap, or failed after the swap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.freshness.evaluation import evaluate, find_incidents
from dedup_clone.freshness.feed_state import FailedRun
from dedup_clone.freshness.incident import IncidentKind
from dedup_clone.operations.rollback import RollbackRequest, prepare
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.state.store import ObjectStore
from testkit import step_faults
from testkit.feed_on_stand_in import ROLLBACK_DAG, TODAY, FeedOnStandIn, row
from testkit.operations import feed_state, page
from tests.shared.freshness_states import NOW

HELD = "stopped by check [changed_share]: 10 of 10 rows changed"


def headline(world: FeedOnStandIn) -> str:
    return evaluate(datetime.now(UTC), feed_state(world)).headline


def held_texts(world: FeedOnStandIn) -> list[str]:
    """What the incidents of held deliveries say."""
    found = find_incidents(datetime.now(UTC), feed_state(world))
    return [incident.what for incident in found if incident.kind is IncidentKind.PUBLISH_FAILED]


def stopped_run(world: FeedOnStandIn) -> str | None:
    """The run of the card with the evidence on the page; None without a card."""
    card = page(world)["stopped"]
    return None if card is None else str(card["run_id"])


def held_runs(world: FeedOnStandIn) -> list[tuple[str, str]]:
    """Snapshot and run of each card of a held delivery on the page."""
    return [(card["snapshot_id"], card["run_id"]) for card in page(world)["held"]]


def discard_attempt(world: FeedOnStandIn) -> None:
    intent = world.services.current.read().intent
    assert intent is not None
    assert not commit_or_discard(world.services, intent)


@pytest.fixture
def stopped(world: FeedOnStandIn) -> str:
    """A delivery that a check on its data stopped, and after which nothing happened yet. Its name."""
    world.configure(checks={"max_changed_share": 0.5})
    for snapshot_id in (6, 7):
        world.publish(world.land(snapshot_id, [row(snapshot_id, n) for n in range(10)]))
    name = world.land(8, [row(8, n, 99) for n in range(10)])
    with pytest.raises(CheckFailed):
        world.publish(name, run_id="stopped")
    discard_attempt(world)
    return name


def die_after_an_acceptance(world: FeedOnStandIn, name: str) -> None:
    world.publish_to_check(name, replay=True, run_id="died", accepted_checks=("changed_share",), reason="new prices")


def fail_a_rollback(world: FeedOnStandIn, name: str) -> None:
    live, _ = world.preview(1)
    form = RollbackRequest(dag_id=ROLLBACK_DAG, run_id="rollback", generation=1, reason="bad")
    attempt = prepare(world.services, form, live)
    assert world.check(attempt)


def fail_a_replay_of_another_delivery(world: FeedOnStandIn, name: str) -> None:
    (live, *_) = world.services.manifests.read(2).deliveries
    world.deduplicate(world.resolve(live.name, replay=True, run_id="dates", reason="again", dates=(TODAY,)))


def die_before_the_load(world: FeedOnStandIn, name: str) -> None:
    world.deduplicate(world.resolve(name, replay=True, run_id="died", reason="again"))


@pytest.mark.parametrize(
    "later",
    [die_after_an_acceptance, die_before_the_load, fail_a_rollback, fail_a_replay_of_another_delivery],
)
def test_the_evidence_stays_after_a_later_attempt_that_published_nothing(
    world: FeedOnStandIn, stopped: str, later: Callable[[FeedOnStandIn, str], None]
) -> None:
    later(world, stopped)
    discard_attempt(world)
    (text,) = held_texts(world)
    assert (HELD in text, held_runs(world)) == (True, [("8", "stopped")])


def test_watchdog_and_page_tell_apart_what_is_held_and_what_waits(world: FeedOnStandIn, stopped: str) -> None:
    world.land(5, [row(5, 1)])
    assert headline(world).endswith("; 1 delivery waits.")
    assert len(held_texts(world)) == 1
    assert (stopped_run(world), held_runs(world)) == (None, [("8", "stopped")])


def test_a_stopped_replay_of_some_dates_says_nothing_of_the_delivery_which_waits(world: FeedOnStandIn) -> None:
    world.configure(checks={"max_changed_share": 0.5})
    world.publish(world.land(7, [row(7, n) for n in range(10)]))
    name = world.land(8, [row(8, n, 99) for n in range(10)])
    with pytest.raises(CheckFailed):
        world.publish(name, replay=True, run_id="dates", reason="these dates are right", dates=(TODAY,))
    discard_attempt(world)
    assert (feed_state(world).stopped, stopped_run(world)) == (None, None)
    with pytest.raises(CheckFailed):
        world.publish(name, run_id="whole")
    discard_attempt(world)
    assert held_runs(world) == [("8", "whole")]


def test_a_check_before_dedup_is_told_with_its_evidence_until_a_publish_passes_it(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    world.label(dedup_clone_generation="9")
    with pytest.raises(CheckFailed):
        world.resolve(name, run_id="early")
    state = feed_state(world)
    assert state.stopped is not None
    assert ([r.check for r in state.stopped.failed], state.stopped.attempt) == (["target_is_parent"], "")
    (at_risk,) = [i for i in find_incidents(NOW, state) if i.kind is IncidentKind.LATE]
    assert "stopped by check [target_is_parent]: generation 9, expected generation 1" in at_risk.what
    repeated = replace(
        state, failed_run=FailedRun("early", Delivery(8, 1), 1, NOW, "a check", NOW + timedelta(minutes=10))
    )
    incidents = {incident.kind: incident for incident in find_incidents(NOW, repeated)}
    assert "target_is_parent: " in incidents[IncidentKind.PUBLISH_FAILED].what
    assert "The next run starts at 2026-06-15 12:10:00 UTC" in incidents[IncidentKind.LATE].what
    assert stopped_run(world) == "early"
    world.label(dedup_clone_generation="1")
    world.deduplicate(world.resolve(name, run_id="later"))
    discard_attempt(world)
    assert (feed_state(world).stopped, stopped_run(world)) == (None, None)


def test_the_replay_of_a_held_delivery_leaves_the_evidence_of_the_one_that_waits(
    world: FeedOnStandIn, stopped: str
) -> None:
    waits = world.land(9, [row(9, n) for n in range(10)])
    world.label(dedup_clone_generation="9")
    for name, changes in ((waits, {"run_id": "early"}), (stopped, {"run_id": "by-hand", "replay": True})):
        with pytest.raises(CheckFailed):
            world.resolve(name, **changes)
        assert stopped_run(world) == changes["run_id"]


def test_a_check_before_dedup_that_a_person_accepts_for_one_delivery_still_stops_the_next(
    world: FeedOnStandIn, stopped: str
) -> None:
    check, waits = "sql_unique_across_dates", world.land(9, [row(9, n) for n in range(10)])
    world.configure(checks={"unique_across_dates": ("product_id",)})
    with step_faults.queries_that_read(1 << 60):
        with pytest.raises(CheckFailed, match=check):
            world.resolve(waits, run_id="early")
        accepts = {"replay": True, "reason": "large", "accepted_checks": ("changed_share", check)}
        world.deduplicate(world.resolve(stopped, run_id="by-hand", **accepts))
        discard_attempt(world)
        assert stopped_run(world) == "early"


def test_a_record_of_checks_before_dedup_that_cannot_be_written_stops_no_publish(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = world.land(7, [row(7, 1)])
    world.services.store.put(world.services.layout.checks_before_dedup, "{")
    assert feed_state(world).stopped is None

    def fail(*arguments: object, **named: object) -> bool:
        raise OSError("no answer")

    monkeypatch.setattr(ObjectStore, "delete_prefix", fail)
    world.resolve(name)


def test_a_check_that_failed_after_the_swap_is_an_incident_until_the_next_generation(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2)])
    attempt, checked = world.publish_to_check(name)
    world.swap(attempt, checked)
    world.bigquery.query_and_wait(f"DELETE FROM `warehouse.{world.feed.target}` WHERE product_id = 1")
    record, _ = commit_attempt(world.services, attempt.id)
    state = feed_state(world)
    assert [r.check for r in state.failed_after_swap] == ["target_rows"]
    (incident,) = [i for i in find_incidents(datetime.now(UTC), state) if i.name == "target_drift-after_swap-1"]
    assert (incident.since, "target_rows: " in incident.what) == (record.swapped_at, True)
    assert "roll back to generation [1]" in incident.next_step
    world.publish(world.land(8, [row(8, 1), row(8, 2)]))
    assert feed_state(world).failed_after_swap == ()
