"""Replays of whole snapshots, in any order and beside arrivals: they repeat, fill gaps, and never do harm."""

from __future__ import annotations

import random

import pytest

from dedup_clone.contract.errors import LeaseHeld
from dedup_clone.publish.resolve import resolve
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row

BY_HAND = {"replay": True, "reason": "to be sure"}


@pytest.mark.exhaustive
def test_replays_of_every_snapshot_in_any_order_change_no_row(world: FeedOnStandIn) -> None:
    names = []
    for snapshot in (5, 6, 7):
        names.append(world.land(snapshot, [row(snapshot, n, snapshot * 10 + n) for n in range(snapshot - 5, 4)]))
        world.publish(names[-1])
    before = world.rows()
    assert before == expected(row(5, 0, 50), row(6, 1, 61), row(7, 2, 72), row(7, 3, 73))
    spec = [*names, names[0]]
    random.Random(7).shuffle(spec)
    for number, name in enumerate(spec):
        world.publish(name, **BY_HAND, run_id=f"by-hand-{number}")
        assert world.rows() == before


@pytest.mark.exhaustive
def test_a_replay_of_what_a_rollback_took_out_fills_gaps_below_what_is_live(world: FeedOnStandIn) -> None:
    world.publish(world.land(5, [row(5, 1)]))
    older = world.land(6, [row(6, 1, 61), row(6, 2, 62)])
    world.publish(older)
    world.roll_back(1)
    world.publish(world.land(7, [row(7, 1, 71)]))
    world.publish(older, **BY_HAND, run_id="by-hand")
    assert world.rows() == expected(row(7, 1, 71), row(6, 2, 62))


def test_an_arrival_during_a_replay_waits_for_the_lease_and_is_published_after_it(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2)])
    world.publish(name)
    spec = world.resolve(name, **BY_HAND, run_id="by-hand")
    world.running.add("by-hand")
    arrived = world.land(8, [row(8, 1, 81)])
    with pytest.raises(LeaseHeld, match="by-hand"):
        world.resolve(arrived)
    world.deduplicate(spec)
    world.load(spec)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    assert world.rows() == expected(row(7, 1), row(7, 2))
    record = world.publish(arrived)
    assert [d.name for d in record.deliveries] == [arrived]
    assert world.rows() == expected(row(8, 1, 81), row(7, 2))


def test_an_arrival_before_a_replay_is_published_by_it_and_its_own_run_has_nothing_to_do(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2)])
    world.publish(name)
    arrived = world.land(8, [row(8, 1, 81)])
    record = world.publish(name, **BY_HAND, run_id="by-hand")
    assert [d.snapshot_id for d in record.deliveries] == [7, 8]
    assert world.rows() == expected(row(8, 1, 81), row(7, 2))
    assert "part of generation 2 already" in str(resolve(world.services, world.publish_request(arrived)))


@pytest.mark.exhaustive
def test_an_arrival_during_a_replay_of_some_dates_is_published_by_its_own_run(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1), row(7, 2)])
    world.publish(name)
    arrived = world.land(8, [row(8, 1, 81)])
    world.publish(name, **BY_HAND, run_id="by-hand", dates=(row(7, 1)["date"],))
    assert world.rows() == expected(row(7, 1), row(7, 2))
    world.publish(arrived)
    assert world.rows() == expected(row(8, 1, 81), row(7, 2))


def test_a_replay_of_an_older_snapshot_leaves_what_readers_are_told_they_see(world: FeedOnStandIn) -> None:
    older = world.land(6, [row(6, 1), row(6, 2)])
    world.publish(older)
    newest = world.publish(world.land(8, [row(8, 1, 81)]))
    record = world.publish(older, **BY_HAND, run_id="by-hand")
    assert [d.name for d in record.deliveries] == [older]
    assert (record.snapshot_id, record.arrived_at) == (8, newest.arrived_at)
    assert (record.lag_s, record.is_replay) == (None, True)
    labels = world.bigquery.get_table(f"warehouse.{world.feed.target}").labels
    assert labels["dedup_clone_snapshot"] == "8"
