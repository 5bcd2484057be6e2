"""A feed whose retention changes: longer at once, shorter once it is approved, and across rollbacks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.contract.errors import CheckFailed, ConfigurationError, LeaseHeld
from dedup_clone.publish.planning.staging_table import approve_retention
from dedup_clone.publish.previews.dry_run import dry_run
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row

LONG_AGO = TODAY - timedelta(days=500)
OLD, RECENT = row(7, 1, day=LONG_AGO), row(7, 2)
FIRST, SECOND = [OLD, RECENT], [row(8, 2, 30)]


def keep(world: FeedOnStandIn, days: int) -> None:
    table = world.feed.table.model_copy(update={"retention_days": days})
    world.feed = world.feed.model_copy(update={"table": table})


def expirations(world: FeedOnStandIn) -> list[float | None]:
    tables = [world.services.warehouse.table(name) for name in (world.feed.staging, world.feed.target)]
    return [table.expiration_days if table else None for table in tables]


def test_a_longer_retention_is_set_by_the_next_publish(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    keep(world, 900)
    world.publish(world.land(8, SECOND))
    assert expirations(world) == [900, 900]
    assert world.rows() == expected(OLD, row(8, 2, 30))


def test_a_shorter_retention_needs_an_approval_that_says_what_readers_lose(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    keep(world, 400)
    second = world.land(8, SECOND)
    refusal = (
        r"retention_days is \[400\], staging keeps \[730\] days, and readers would lose \[1\] dates with \[1\] rows"
    )
    with pytest.raises(ConfigurationError, match=refusal):
        world.resolve(second)
    assert world.services.current.read().intent is None
    assert world.rows() == expected(*FIRST)

    approve_retention(world.services)
    assert expirations(world) == [400, 730]
    world.publish(second)
    assert expirations(world) == [400, 400]
    assert world.rows() == expected(row(8, 2, 30))


@pytest.mark.exhaustive
def test_a_rollback_across_a_changed_retention_keeps_it(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    keep(world, 900)
    world.publish(world.land(8, SECOND))
    assert world.roll_back(1).restores == 1
    assert expirations(world) == [900, 900]
    assert world.rows() == expected(*FIRST)
    keep(world, 400)
    approve_retention(world.services)
    world.roll_back(2, run_id="again")
    assert expirations(world) == [400, 400]


def test_a_retention_is_not_approved_while_a_run_is_at_work(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    spec = world.resolve(world.land(8, SECOND))
    keep(world, 400)
    with pytest.raises(LeaseHeld, match="is being worked on"):
        approve_retention(world.services)
    assert expirations(world) == [730, 730]
    world.services.current.release(spec.attempt)


@pytest.mark.exhaustive
def test_another_clustering_stops_a_publish_before_the_dedup(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, FIRST))
    table = world.feed.table.model_copy(update={"cluster_by": ("store_id",)})
    world.feed = world.feed.model_copy(update={"table": table})
    name = world.land(8, SECOND)
    with pytest.raises(CheckFailed, match="layout: "):
        dry_run(world.services, world.publish_request(name))
    with pytest.raises(CheckFailed, match="layout: "):
        world.resolve(name)
