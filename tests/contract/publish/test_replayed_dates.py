"""Replays of some dates of a delivery: what they change, what they leave, and what is said of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.cloud import bigquery

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.page.publish_kinds import PublishKind, publish_kinds
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.state.index import DeliveryState, IndexFile
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row

HAND = {"replay": True, "run_id": "by-hand", "reason": "yesterday was wrong"}


def live_snapshot(world: FeedOnStandIn) -> tuple[str, int]:
    """The snapshot that readers see: by target's label, by the status table."""
    facts = world.services.warehouse.table(world.feed.target)
    assert facts
    world.write_reporting_tables()
    (status,) = world.bigquery.query_and_wait(
        "SELECT snapshot_id FROM warehouse.dedup_clone_status WHERE feed = @feed",
        job_config=bigquery.QueryJobConfig(
            query_parameters=[bigquery.ScalarQueryParameter("feed", "STRING", world.feed.feed)]
        ),
    )
    return facts.labels["dedup_clone_snapshot"], status["snapshot_id"]


def test_an_older_snapshot_fills_gaps_of_those_dates_only_and_its_own_publish_is_still_right(
    world: FeedOnStandIn,
) -> None:
    live = [row(7, 1), row(7, 1, day=YESTERDAY)]
    world.publish(world.land(7, live))
    late = world.land(5, [row(5, 1, 99), row(5, 2), row(5, 3, day=YESTERDAY)])
    record = world.publish(late, dates=(TODAY,), **HAND)
    assert world.rows() == expected(*live, row(5, 2))
    assert record.snapshot_id == 7
    assert record.deliveries == ()
    assert record.lag_s is None
    assert record.reason == f"of [{late}] only {TODAY}: yesterday was wrong"
    assert live_snapshot(world) == ("7", 7)
    manifest = world.services.manifests.read(record.generation)
    assert [d.snapshot_id for d in manifest.deliveries] == [7]
    index = IndexFile(world.services.store, world.feed.feed).read().index
    assert index
    assert publish_kinds(index)[record.generation] is PublishKind.REPLAY
    assert {a.delivery.name: a.state for a in index.arrivals}[late] is DeliveryState.WAITING

    world.publish(late)
    assert world.rows() == expected(*live, row(5, 2), row(5, 3, day=YESTERDAY))


def test_a_newer_snapshot_that_waits_is_taken_on_those_dates_only_and_whole_later(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY)]))
    name = world.land(8, [row(8, 1, 21), row(8, 1, 22, day=YESTERDAY)])
    world.publish(name, dates=(YESTERDAY,), **HAND)
    assert world.rows() == expected(row(7, 1), row(8, 1, 22, day=YESTERDAY))
    target = world.services.warehouse.table(world.feed.target)
    assert target
    assert target.labels["dedup_clone_snapshot"] == "7"
    # An older one that arrives meanwhile may only fill gaps on the date that is ahead.
    between = world.land(6, [row(6, 4, day=YESTERDAY), row(6, 1, 66, day=YESTERDAY)])
    world.publish(between, dates=(YESTERDAY,), **HAND)
    assert world.rows() == expected(row(7, 1), row(8, 1, 22, day=YESTERDAY), row(6, 4, day=YESTERDAY))
    record = world.publish(name)
    assert world.rows() == expected(row(8, 1, 21), row(8, 1, 22, day=YESTERDAY), row(6, 4, day=YESTERDAY))
    assert [d.snapshot_id for d in record.deliveries] == [6, 8]
    assert live_snapshot(world) == ("8", 8)


@pytest.mark.exhaustive
def test_dates_of_what_is_live_change_no_row_and_missing_dates_are_not_missed(world: FeedOnStandIn) -> None:
    checks = CheckSettings(max_missing_dates=0)
    world.feed = world.feed.model_copy(update={"checks": checks})
    live = [row(7, 1), row(7, 1, day=YESTERDAY)]
    name = world.land(7, live)
    world.publish(name)
    for number in range(2):
        world.publish(name, dates=(YESTERDAY,), **{**HAND, "run_id": f"hand-{number}"})
    assert world.rows() == expected(*live)
    assert live_snapshot(world) == ("7", 7)


@pytest.mark.exhaustive
def test_an_excluded_delivery_stays_excluded(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY)]))
    name = world.land(8, [row(8, 1, 21), row(8, 1, 22, day=YESTERDAY)])
    world.publish(name)
    world.roll_back(1)
    record = world.publish(name, dates=(TODAY,), **HAND)
    assert world.rows() == expected(row(8, 1, 21), row(7, 1, day=YESTERDAY))
    assert [d.name for d in world.services.manifests.read(record.generation).excluded] == [name]


def test_dates_that_are_not_there_are_refused_with_those_that_are(world: FeedOnStandIn) -> None:
    old = TODAY - timedelta(days=world.feed.table.retention_days)
    name = world.land(7, [row(7, 1), row(7, 1, day=YESTERDAY), row(7, 1, day=old)])
    with pytest.raises(ConfigurationError, match="before the first publish: replay the whole snapshot"):
        world.resolve(name, dates=(TODAY,), **HAND)
    world.publish(name)
    absent = TODAY - timedelta(days=5)
    with pytest.raises(ConfigurationError) as refused:
        world.resolve(name, dates=(old, absent, TODAY), **HAND)
    message = str(refused.value)
    assert f"(the oldest is {old + timedelta(days=1)}): {old}; not in the delivery: {absent}." in message
    assert f"Choose among: {YESTERDAY}..{TODAY}." in message
    assert world.services.current.read().intent is None


def test_a_feed_that_cannot_tell_dates_or_needs_snapshots_in_order_refuses_them(world: FeedOnStandIn) -> None:
    name = world.land(7, [row(7, 1)])
    world.publish(name)
    newer = world.land(8, [row(8, 1)])
    feed = world.feed
    world.feed = feed.model_copy(update={"landing": feed.landing.model_copy(update={"date_folders": False})})
    with pytest.raises(ConfigurationError, match="lands no date folders"):
        world.resolve(name, dates=(TODAY,), **HAND)
    world.feed = feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    with pytest.raises(ConfigurationError, match=rf"newest published delivery \[{name}\] can"):
        world.resolve(newer, dates=(TODAY,), **HAND)
    world.services.current.release(world.resolve(name, dates=(TODAY,), **HAND).attempt)


@pytest.mark.exhaustive
@pytest.mark.parametrize("engine", [Engine.BIGQUERY, pytest.param(Engine.MERGE, marks=pytest.mark.exhaustive)])
def test_the_engines_in_sql_take_those_dates_only(world: FeedOnStandIn, engine: Engine) -> None:
    live = [row(7, 1), row(7, 2), row(7, 1, day=YESTERDAY)]
    world.publish(world.land(7, live), engine=engine)
    name = world.land(8, [row(8, 1, 21), row(8, 1, 22, day=YESTERDAY)])
    world.publish(name, dates=(YESTERDAY,), engine=engine, **HAND)
    assert world.rows() == expected(row(7, 1), row(7, 2), row(8, 1, 22, day=YESTERDAY))
    assert live_snapshot(world) == ("7", 7)
    world.publish(name, engine=engine)
    assert world.rows() == expected(row(8, 1, 21), row(7, 2), row(8, 1, 22, day=YESTERDAY))
