"""The facts of a feed, read from a real object store and the stand-in, and what is judged from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from google.cloud.bigquery import Table

from dedup_clone.freshness.facts import Facts
from dedup_clone.freshness.gather import gather
from dedup_clone.freshness.judge import judge
from dedup_clone.freshness.standing import standing_task
from dedup_clone.state.arrivals import Refusal
from tests.contract.publish.feed_world import FeedWorld, row

HOUR = timedelta(hours=1)


def look(world: FeedWorld) -> Facts:
    return gather(world.services, watch=None, publish=None, look_again=timedelta(minutes=5))


def wrong(world: FeedWorld, *, after: timedelta = timedelta(0)) -> list[str]:
    return [incident.name for incident in judge(datetime.now(UTC) + after, look(world))]


def mark(world: FeedWorld, folder: str) -> None:
    world.storage.bucket("landing").blob(f"{world.feed.landing.prefix}/{folder}/_SUCCESS").upload_from_string("")


def test_a_feed_without_anything(world: FeedWorld) -> None:
    facts = look(world)
    assert (facts.live, facts.waiting, facts.arrivals, facts.target and facts.target.table) == (None, (), (), None)
    assert wrong(world) == []


def test_a_delivery_waits_from_its_marker_until_it_is_live(world: FeedWorld) -> None:
    mark(world, "snapshot_id=7")
    (unnoticed,) = look(world).waiting
    assert (unnoticed.delivery.snapshot_id, unnoticed.registered) == (7, False)
    name = world.land(7, [row(7, 1)])
    (noticed,) = look(world).waiting
    assert noticed.registered
    assert noticed.arrived_at == world.services.arrivals.read(noticed.delivery).arrived_at
    assert wrong(world, after=2 * HOUR) == ["promise_missed"]
    record = world.publish(name)
    facts = look(world)
    assert (facts.waiting, facts.live, facts.arrivals[-1]) == ((), record, record.arrived_at)
    assert wrong(world, after=2 * HOUR) == []


def test_a_delivery_waits_although_its_landing_was_cleaned(world: FeedWorld) -> None:
    world.land(7, [row(7, 1)])
    world.storage.bucket("landing").blob(f"{world.feed.landing.prefix}/snapshot_id=7/_SUCCESS").delete()
    (waiting,) = look(world).waiting
    assert abs(waiting.arrived_at - datetime.now(UTC)) < HOUR
    assert wrong(world, after=2 * HOUR) == ["promise_missed"]


def test_refused_deliveries_are_wrong_until_a_later_one_is_live(world: FeedWorld) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    name = world.land(8, [row(8, 1)])
    refused = next(d for d in world.services.arrivals.deliveries() if d.name == name)
    world.services.arrivals.refuse(Refusal(refused, "file x, column y: 3 NULL keys", "run", datetime.now(UTC)))
    (fact,) = look(world).refused
    assert fact.reason == "file x, column y: 3 NULL keys"
    assert wrong(world, after=2 * HOUR) == [f"delivery_refused-{name}"]
    world.publish(world.land(9, [row(9, 1)]))
    assert wrong(world) == []


def test_a_misnamed_marker_is_wrong_until_it_is_gone(world: FeedWorld) -> None:
    mark(world, "snapshot_id=seven")
    (name,) = wrong(world)
    assert name.startswith("marker_misnamed-")
    world.storage.bucket("landing").blob(f"{world.feed.landing.prefix}/snapshot_id=seven/_SUCCESS").delete()
    assert wrong(world) == []


def test_no_step_of_a_publish_nor_a_rollback_looks_like_drift(world: FeedWorld) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    order = world.resolve(world.land(8, [row(8, 1, 21)]))
    assert wrong(world) == []
    world.deduplicate(order)
    world.load(order)
    swap = world.check(order)
    assert wrong(world) == []
    world.swap(order, swap)
    assert wrong(world) == []
    world.commit(order)
    assert wrong(world) == []
    world.roll_back(1)
    assert wrong(world) == []


def change(world: FeedWorld, field: str, **values: object) -> None:
    table = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    for name, value in values.items():
        setattr(table, name, value)
    world.bigquery.update_table(table, [field])


def test_labels_changed_by_hand_are_drift(world: FeedWorld) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    change(world, "labels", labels={"dedup_clone_generation": "5"})
    (incident,) = judge(datetime.now(UTC), look(world))
    assert incident.name == "target_drift"
    assert "label dedup_clone_generation is [5], expected [1]" in incident.what


def test_a_target_that_somebody_replaced_is_drift(world: FeedWorld) -> None:
    world.publish(world.land(7, [row(7, 1)]))
    world.bigquery.delete_table(f"warehouse.{world.feed.target}")
    assert wrong(world) == ["target_drift"]
    world.bigquery.create_table(Table(f"local-dev.warehouse.{world.feed.target}"))
    (incident,) = judge(datetime.now(UTC), look(world))
    assert "it is a clone of [None]" in incident.what
    assert "partitions expire after [None] days" in incident.what


def test_a_run_stands_at_the_task_whose_traces_it_lacks(world: FeedWorld) -> None:
    store, feed = world.services.store, world.feed.feed

    def stands(run_id: str = "run-a") -> str:
        return standing_task(store, feed, run_id)

    name = world.land(7, [row(7, 1)])
    assert stands() == "task [resolve_publish] or after its end: it holds no lease"
    order = world.resolve(name, run_id="run-a")
    assert stands() == "task [dedup_snapshot]"
    assert stands("run-b") == "task [resolve_publish]: run [run-a] of [feed_publish] holds the lease"
    world.deduplicate(order)
    assert stands() == "task [load_staging]"
    world.load(order)
    assert stands() == "task [load_staging] or [check_staging]"
    swap = world.check(order)
    assert stands() == "task [swap_target]"
    world.services.current.wait_for_approval(order.attempt)
    assert stands() == "task [approve_accepted]"
    world.services.current.end_wait(order.attempt)
    world.swap(order, swap)
    assert stands() == "task [swap_target] or [commit_generation]"
    world.commit(order)
    assert stands() == "task [resolve_publish] or after its end: it holds no lease"


def test_a_look_bills_nothing(world: FeedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    world.publish(world.land(7, [row(7, 1)]))

    asked: list[object] = []

    def refuse(*arguments: object, **named: object) -> None:
        asked.append(arguments)
        raise AssertionError("the watchdog ran a query")

    monkeypatch.setattr(world.bigquery, "query", refuse)
    look(world)
    assert asked == []
