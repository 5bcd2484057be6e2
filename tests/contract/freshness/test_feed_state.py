"""The state of a feed, read from a real object store and the stand-in, and the incidents that follow from it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dedup_clone.freshness.evaluation import find_incidents
from dedup_clone.state.arrivals import Arrivals, Refusal
from dedup_clone.state.ledger import Ledger
from testkit.feed_on_stand_in import FeedOnStandIn, row
from testkit.operations import feed_state

HOUR = timedelta(hours=1)


def wrong(world: FeedOnStandIn, *, after: timedelta = timedelta(0)) -> list[str]:
    return [incident.name for incident in find_incidents(datetime.now(UTC) + after, feed_state(world))]


def mark(world: FeedOnStandIn, folder: str) -> None:
    world.storage.bucket("landing").blob(f"{world.feed.landing.prefix}/{folder}/_SUCCESS").upload_from_string("")


def test_a_delivery_waits_from_its_marker_until_it_is_live(world: FeedOnStandIn) -> None:
    assert wrong(world) == []
    mark(world, "snapshot_id=7")
    (unregistered,) = feed_state(world).waiting
    assert (unregistered.delivery.snapshot_id, unregistered.is_registered) == (7, False)
    assert wrong(world, after=2 * HOUR) == ["late"]
    name = world.land(7, [row(7, 1)])
    (registered,) = feed_state(world).waiting
    assert registered.is_registered
    assert registered.arrived_at == world.services.arrivals.read(registered.delivery).arrived_at
    world.storage.bucket("landing").blob(f"{world.feed.landing.prefix}/snapshot_id=7/_SUCCESS").delete()
    (cleaned,) = feed_state(world).waiting
    assert abs(cleaned.arrived_at - registered.arrived_at) < timedelta(seconds=1)
    assert wrong(world, after=2 * HOUR) == ["late"]
    record = world.publish(name)
    state = feed_state(world)
    assert (state.waiting, state.live) == ((), record)
    assert wrong(world, after=2 * HOUR) == []


def refuse(world: FeedOnStandIn, name: str) -> None:
    (refused,) = [d for d in world.services.arrivals.deliveries() if d.name == name]
    world.services.arrivals.refuse(Refusal(refused, "NULL keys", datetime.now(UTC)))


def test_a_refused_delivery_is_wrong_until_its_snapshot_or_a_newer_one_is_live(world: FeedOnStandIn) -> None:
    good, name = world.land(7, [row(7, 1)]), world.land(8, [row(8, 1)])
    refuse(world, name)
    world.publish(good)
    world.publish(good, replay=True, reason="again")
    assert wrong(world) == [f"refused-{name}"]
    corrected = world.land(8, [row(8, 1)])
    assert wrong(world) == [f"refused-{name}"]
    world.publish(corrected)
    assert wrong(world) == []


def test_a_refused_correction_is_wrong_until_another_one_is_live(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    bad = world.land(7, [row(7, 1, 21)])
    refuse(world, bad)
    world.publish(world.land(6, [row(6, 1)]))  # a late snapshot makes no newer delivery live
    assert wrong(world) == [f"refused-{bad}"]
    worse = world.land(7, [row(7, 1, 22)])
    refuse(world, worse)
    assert wrong(world) == [f"refused-{worse}"]
    world.publish(world.land(7, [row(7, 1, 23)]))
    assert wrong(world) == []


def test_an_invalid_marker_is_wrong_until_it_is_gone(world: FeedOnStandIn) -> None:
    mark(world, "snapshot_id=seven")
    (name,) = wrong(world)
    assert name.startswith("refused-marker-")
    world.storage.bucket("landing").blob(f"{world.feed.landing.prefix}/snapshot_id=seven/_SUCCESS").delete()
    assert wrong(world) == []


def test_no_step_of_a_publish_nor_a_rollback_is_drift(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.running.add("eight")
    attempt = world.resolve(world.land(8, [row(8, 1, 21)]), run_id="eight")
    assert wrong(world) == []
    world.deduplicate(attempt)
    world.load(attempt)
    swap = world.check(attempt)
    assert wrong(world) == []
    world.swap(attempt, swap)
    assert wrong(world) == []
    world.running.clear()
    assert wrong(world) == ["late"]  # the run ended without a commit
    world.commit(attempt)
    assert wrong(world) == []
    world.roll_back(1)
    assert wrong(world) == []


def test_a_retention_that_was_changed_in_the_feed_file_is_no_drift_until_the_next_swap(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    days = world.feed.table.retention_days + 30
    world.configure(table={"retention_days": days})
    assert wrong(world) == []
    world.publish(world.land(8, [row(8, 1)]))
    state = feed_state(world)
    assert state.target is not None
    assert (state.target.retention_days, wrong(world)) == (days, [])


def test_a_delivery_that_lands_or_is_registered_during_the_check_waits_once(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark(world, "snapshot_id=7")
    lists = Arrivals.lists

    def register_two(*arguments: Any) -> Any:
        world.land(8, [row(8, 1)])
        (marker,) = [m for m in world.services.landing.markers() if m.delivery.snapshot_id == 7]
        world.services.arrivals.register(world.services.landing, marker)
        return lists(*arguments)

    monkeypatch.setattr(Arrivals, "lists", register_two)
    assert [w.delivery.snapshot_id for w in feed_state(world).waiting] == [7, 8]


def test_a_commit_during_the_check_does_not_hide_the_record_of_the_live_generation(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    refuse(world, world.land(8, [row(8, 1)]))
    world.publish(world.land(9, [row(9, 1)]))
    attempt, swap = world.publish_to_check(world.land(10, [row(10, 1)]))
    world.swap(attempt, swap)
    of_generation = Ledger.of_generation

    def commit_after(*arguments: Any) -> Any:
        live = of_generation(*arguments)
        if world.services.current.read().intent is not None:
            world.commit(attempt)
        return live

    monkeypatch.setattr(Ledger, "of_generation", commit_after)
    state = feed_state(world)
    assert state.live is not None
    assert state.refused == ()


def test_a_check_bills_nothing(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish(world.land(7, [row(7, 1)]))

    asked: list[object] = []

    def refuse_queries(*arguments: object, **named: object) -> None:
        asked.append(arguments)
        raise AssertionError("the watchdog ran a query")

    monkeypatch.setattr(world.bigquery, "query", refuse_queries)
    feed_state(world)
    assert asked == []
