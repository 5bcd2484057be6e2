"""A feed whose retention changes: longer at once, shorter once it is approved, and across rollbacks."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.contract.errors import ConfigurationError, LeaseHeld
from testkit import operations
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row
from tests.contract.publish.existing_tables import with_table

OLD, RECENT = row(7, 1, day=TODAY - timedelta(days=500)), row(7, 2)
SECOND = [row(8, 2, 30)]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    world.publish(world.land(7, [OLD, RECENT]))
    return world


def keep(world: FeedOnStandIn, days: int) -> None:
    world.feed = with_table(world.feed, retention_days=days)


def expirations(world: FeedOnStandIn) -> list[float]:
    """The days for which staging and target keep partitions."""
    tables = [world.bigquery.get_table(f"warehouse.{name}") for name in (world.feed.staging, world.feed.target)]
    return [table.time_partitioning.expiration_ms / 86_400_000 for table in tables]


def test_a_longer_retention_is_set_by_the_next_publish_and_kept_by_a_rollback(published: FeedOnStandIn) -> None:
    keep(published, 900)
    published.publish(published.land(8, SECOND))
    assert expirations(published) == [900, 900]
    assert published.rows() == expected(OLD, *SECOND)
    published.roll_back(1)
    assert expirations(published) == [900, 900]
    assert published.rows() == expected(OLD, RECENT)
    keep(published, 400)
    operations.approve_shorter_retention(published)
    published.roll_back(2, run_id="again")
    assert expirations(published) == [400, 400]


def test_a_shorter_retention_needs_an_approval_that_says_what_readers_lose(published: FeedOnStandIn) -> None:
    keep(published, 400)
    second = published.land(8, SECOND)
    with pytest.raises(ConfigurationError, match=r"\[400\].*\[730\].*\[1\] dates with \[1\] rows"):
        published.resolve(second)
    assert published.state.lease is None
    assert published.rows() == expected(OLD, RECENT)
    operations.approve_shorter_retention(published)
    assert expirations(published) == [400, 730]
    published.publish(second)
    assert expirations(published) == [400, 400]
    assert published.rows() == expected(*SECOND)


def test_a_retention_is_not_approved_while_a_run_is_at_work(published: FeedOnStandIn) -> None:
    published.resolve(published.land(8, SECOND))
    keep(published, 400)
    with pytest.raises(LeaseHeld):
        operations.approve_shorter_retention(published)
    assert expirations(published) == [730, 730]
