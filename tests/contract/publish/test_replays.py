"""Replays of snapshots, or of some of their dates, in any order and beside arrivals: they fill gaps and do no harm."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from dedup_clone.contract.errors import ConfigurationError, LeaseHeld
from testkit import operations, runs
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row, today
from testkit.spark_dedup_process import SparkDedupProcess

BY_HAND: dict[str, Any] = {"replay": True, "reason": "to be sure", "run_id": "by-hand"}
DATES: dict[str, Any] = {**BY_HAND, "reason": "yesterday was wrong"}


def live_snapshot(world: FeedOnStandIn) -> tuple[str, int]:
    """The snapshot that readers see: by target's label, by the status view."""
    world.write_reporting_tables()
    labels = world.bigquery.get_table(f"warehouse.{world.feed.target}").labels
    ((reported,),) = world.reported("snapshot_id", "status")
    return labels["dedup_clone_snapshot"], reported


def test_replays_of_every_snapshot_in_any_order_change_no_row(world: FeedOnStandIn) -> None:
    names = []
    for snapshot in (5, 6, 7):
        names.append(world.land(snapshot, [row(snapshot, n, snapshot * 10 + n) for n in range(snapshot - 5, 4)]))
        newest = world.publish(names[-1])
    before = world.rows()
    assert before == expected(row(5, 0, 50), row(6, 1, 61), row(7, 2, 72), row(7, 3, 73))
    order = [*names, names[0]]
    random.Random(7).shuffle(order)
    for name in order:
        record = world.publish(name, **BY_HAND)
        assert world.rows() == before
        assert [d.name for d in record.deliveries] == [name]
        assert (record.snapshot_id, record.arrived_at) == (7, newest.arrived_at)
        assert (record.lag_s, record.replay, record.reason) == (None, True, "to be sure")
    assert live_snapshot(world) == ("7", 7)


def test_a_replay_of_what_a_rollback_took_out_fills_gaps_below_what_is_live(world: FeedOnStandIn) -> None:
    world.publish(world.land(5, [row(5, 1)]))
    older = world.land(6, [row(6, 1, 61), row(6, 2, 62), row(6, 3, day=YESTERDAY)])
    world.publish(older)
    world.roll_back(1)
    record = world.publish(older, dates=(TODAY,), **DATES)
    assert world.rows() == expected(row(6, 1, 61), row(6, 2, 62))
    assert [d["snapshot_id"] for d in world.state.manifest(record.generation)["excluded"]] == [6]
    world.roll_back(1)
    world.publish(world.land(7, [row(7, 1, 71)]))
    world.publish(older, **BY_HAND)
    assert world.rows() == expected(row(7, 1, 71), row(6, 2, 62), row(6, 3, day=YESTERDAY))


@pytest.mark.parametrize("dates", [None, (TODAY,)], ids=["whole", "some dates"])
def test_an_arrival_is_published_by_a_replay_of_a_whole_snapshot_or_after_it(world: FeedOnStandIn, dates: Any) -> None:
    name = world.land(7, [row(7, 1), row(7, 2)])
    world.publish(name)
    arrived = world.land(8, [row(8, 1, 81)])
    run = runs.publish(world, name, dates=dates, **BY_HAND).until("resolve")
    world.running = {"by-hand"}
    during = world.land(9, [row(9, 2, 92)])
    with pytest.raises(LeaseHeld, match="by-hand"):
        world.resolve(during)
    replay = run.finish()
    if dates is None:
        assert [d.snapshot_id for d in replay.deliveries] == [7, 8]
        assert "part of generation 2 already" in world.nothing_to_do(arrived)
    else:
        assert world.rows() == expected(row(7, 1), row(7, 2))
    record = world.publish(during)
    assert [d.snapshot_id for d in record.deliveries] == ([9] if dates is None else [8, 9])
    assert world.rows() == expected(row(8, 1, 81), row(9, 2, 92))


def test_dates_of_an_older_snapshot_fill_gaps_and_its_own_publish_is_still_right(world: FeedOnStandIn) -> None:
    live = [row(7, 1), row(7, 1, day=YESTERDAY)]
    newest = world.land(7, live)
    world.publish(newest)
    late = world.land(5, [row(5, 1, 99), row(5, 2), row(5, 3, day=YESTERDAY)])
    record = world.publish(late, dates=(TODAY,), **DATES)
    assert world.rows() == expected(*live, row(5, 2))
    assert (record.snapshot_id, record.deliveries, record.lag_s) == (7, (), None)
    assert record.reason == f"of [{late}] only {TODAY}: yesterday was wrong"
    assert live_snapshot(world) == ("7", 7)
    assert [d["snapshot_id"] for d in world.state.manifest()["deliveries"]] == [7]
    waiting = [d["snapshot_id"] for d in operations.page(world)["deliveries"] if d["state"] == "waiting"]
    assert waiting == ["5"]
    world.configure(checks={"max_missing_dates": 0})  # dates that were not asked for are not missing
    world.publish(newest, dates=(YESTERDAY,), **DATES)
    assert world.rows() == expected(*live, row(5, 2))
    world.publish(late)
    assert world.rows() == expected(*live, row(5, 2), row(5, 3, day=YESTERDAY))


@pytest.mark.spark
def test_dates_of_a_newer_snapshot_that_waits_are_taken_alone_and_the_rest_later(
    world: FeedOnStandIn, real_dedup: SparkDedupProcess
) -> None:
    world.dedup = real_dedup  # plan window applies two deliveries to one date, of which one is late
    world.publish(world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY)]))
    name = world.land(8, [row(8, 1, 21), row(8, 1, 22, day=YESTERDAY)])
    world.publish(name, dates=(YESTERDAY,), **DATES)
    assert world.rows() == expected(row(7, 1), row(8, 1, 22, day=YESTERDAY))
    assert live_snapshot(world) == ("7", 7)
    # An older one that arrives meanwhile may only fill gaps on the date that is ahead.
    between = world.land(6, [row(6, 4, day=YESTERDAY), row(6, 1, 66, day=YESTERDAY)])
    world.publish(between, dates=(YESTERDAY,), **DATES)
    assert world.rows() == expected(row(7, 1), row(8, 1, 22, day=YESTERDAY), row(6, 4, day=YESTERDAY))
    record = world.publish(name)
    assert world.rows() == expected(row(8, 1, 21), row(8, 1, 22, day=YESTERDAY), row(6, 4, day=YESTERDAY))
    assert [d.snapshot_id for d in record.deliveries] == [6, 8]
    assert live_snapshot(world) == ("8", 8)


@pytest.mark.parametrize("engine", ["bigquery", "merge"])
def test_the_engines_in_sql_take_those_dates_only(world: FeedOnStandIn, engine: str) -> None:
    live = [row(7, 1), row(7, 2), row(7, 1, day=YESTERDAY)]
    world.publish(world.land(7, live), engine=engine)
    name = world.land(8, [row(8, 1, 21), row(8, 1, 22, day=YESTERDAY)])
    world.publish(name, dates=(YESTERDAY,), engine=engine, **DATES)
    assert world.rows() == expected(row(7, 1), row(7, 2), row(8, 1, 22, day=YESTERDAY))
    world.publish(name, engine=engine)
    assert world.rows() == expected(row(8, 1, 21), row(7, 2), row(8, 1, 22, day=YESTERDAY))


def test_dates_that_are_not_there_and_feeds_that_cannot_tell_them_are_refused(world: FeedOnStandIn) -> None:
    old = today() - timedelta(days=730)
    name = world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY), row(7, 1, day=old)])
    with pytest.raises(ConfigurationError, match="before the first publish"):
        world.resolve(name, dates=(TODAY,), **DATES)
    world.publish(name)
    absent = TODAY - timedelta(days=5)
    with pytest.raises(ConfigurationError) as refused:
        world.resolve(name, dates=(old, absent, TODAY), **DATES)
    message = str(refused.value)
    assert f"(the oldest is {old + timedelta(days=1)}): {old}; not in the delivery: {absent}." in message
    assert f"Choose among: {YESTERDAY}..{TODAY}." in message
    newer = world.land(8, [row(8, 1)])
    world.configure(landing={"date_folders": False})
    with pytest.raises(ConfigurationError, match="lands no date folders"):
        world.resolve(name, dates=(TODAY,), **DATES)
    world.configure(landing={"date_folders": True}, update_id_mode="last_changed")
    with pytest.raises(ConfigurationError, match=rf"newest published delivery \[{name}\] can"):
        world.resolve(newer, dates=(TODAY,), **DATES)
    assert world.state.lease is None
    assert world.resolve(name, dates=(TODAY,), **DATES).dates == (TODAY,)
