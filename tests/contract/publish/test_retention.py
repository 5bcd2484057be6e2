"""What a feed keeps: rows for its retention, which changes, and the table that a swap replaces with keep_previous."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.api_core.exceptions import GoogleAPICallError

from dedup_clone.contract.errors import CheckFailed, ConfigurationError, LeaseHeld
from testkit import operations, runs
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, Row, expected, row
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


@pytest.fixture
def feed(world: FeedOnStandIn) -> FeedOnStandIn:
    """A feed that keeps the previous table, whose snapshots 1 and 2 were published."""
    world.configure(table={"keep_previous": "7d"})
    world.publish(world.land(1, rows(1)))
    assert not exists(world), "there was no table to keep"
    world.publish(world.land(2, rows(2)))
    return world


def rows(number: int) -> list[Row]:
    return [row(number, 1, number), row(number, 10 + number)]


def after(*numbers: int) -> list[tuple[object, ...]]:
    """The table's rows after these snapshots."""
    return expected(row(numbers[-1], 1, numbers[-1]), *(row(number, 10 + number) for number in numbers))


def previous(world: FeedOnStandIn) -> str:
    return f"{world.feed.target}_previous"


def exists(world: FeedOnStandIn) -> bool:
    return previous(world) in {table.table_id for table in world.bigquery.list_tables("warehouse")}


def test_it_has_the_rows_that_the_last_swap_replaced_although_that_ran_twice_and_expires(feed: FeedOnStandIn) -> None:
    table = feed.bigquery.get_table(f"warehouse.{previous(feed)}")
    assert feed.rows(previous(feed)) == after(1)
    assert table.labels == {"dedup_clone_generation": "1"}
    assert timedelta(days=6, hours=23) < table.expires - table.created < timedelta(days=7, minutes=1)
    assert feed.bigquery.get_table(f"warehouse.{feed.feed.target}").expires is None
    run = runs.publish(feed, feed.land(3, rows(3))).until("swap")
    run.swap(2)
    assert (feed.rows(previous(feed)), feed.rows()) == (after(1, 2), after(1, 2, 3))


def test_a_swap_that_fails_after_it_kept_the_table_is_undone_and_the_next_keeps_what_it_replaces(
    feed: FeedOnStandIn,
) -> None:
    run = runs.publish(feed, feed.land(3, rows(3))).until("check")
    feed.bigquery.delete_table(f"warehouse.{feed.feed.staging}")  # the script's last statement clones it
    with pytest.raises(GoogleAPICallError):
        run.step("swap")
    assert feed.rows() == feed.rows(previous(feed)) == after(1, 2)
    assert feed.bigquery.get_table(f"warehouse.{previous(feed)}").labels == {"dedup_clone_generation": "2"}
    assert not run.end()
    feed.publish(feed.land(4, rows(4)))
    assert (feed.rows(previous(feed)), feed.rows()) == (after(1, 2), after(1, 2, 3, 4))


def test_its_label_names_the_generation_to_which_a_rollback_goes_and_a_retirement_drops_it(feed: FeedOnStandIn) -> None:
    labels, rows_kept = feed.bigquery.get_table(f"warehouse.{previous(feed)}").labels, feed.rows(previous(feed))
    feed.roll_back(int(labels["dedup_clone_generation"]))
    assert (feed.rows(), feed.rows(previous(feed))) == (rows_kept, after(1, 2))
    operations.retire(feed, "keep")
    assert not exists(feed)


def test_a_foreign_table_of_that_name_stops_publishes_and_is_never_dropped(world: FeedOnStandIn) -> None:
    world.publish(world.land(1, rows(1)))
    world.query(f"CREATE TABLE .{previous(world)} (a INT64)")
    world.configure(table={"keep_previous": "7d"})
    with pytest.raises(CheckFailed, match="previous_table"):
        world.publish(world.land(2, rows(2)))
    operations.retire(world, "drop")
    assert exists(world)


def test_a_foreign_table_of_that_name_stops_no_erasure_which_keeps_none(world: FeedOnStandIn) -> None:
    world.publish(world.land(1, rows(1)))
    world.query(f"CREATE TABLE .{previous(world)} (a INT64)")
    world.configure(table={"keep_previous": "7d"})
    runs.erasure(world, "product_id\n1\n").finish()
    assert world.rows() == expected(row(1, 11))
    assert world.bigquery.get_table(f"warehouse.{previous(world)}").labels == {}


def test_an_erasure_keeps_no_erased_row(feed: FeedOnStandIn) -> None:
    run = runs.erasure(feed, "product_id\n1\n")
    run.until("commit")
    assert feed.rows(previous(feed)) == after(1)  # that of the publish before, until the last step
    run.finish()
    assert not exists(feed)
    assert feed.rows() == expected(row(1, 11), row(2, 12))


def test_an_erasure_whose_last_step_is_late_leaves_what_a_later_swap_has_replaced(feed: FeedOnStandIn) -> None:
    run = runs.erasure(feed, "product_id\n1\n").until("commit")
    feed.publish(feed.land(4, [row(4, 12)]))
    run.finish()
    assert feed.rows(previous(feed)) == expected(row(1, 11), row(2, 12))
