"""Retirement: a feed that nothing watches or publishes any more, and what is left of it."""

from __future__ import annotations

import contextlib

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import ConfigurationError, LeaseHeld, LostRace
from dedup_clone.state.store import ObjectStore
from testkit import operations
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row
from testkit.killed_writes import asleep_before_write
from tests.contract.new_feeds import new_feed
from tests.contract.publish.existing_tables import create_table
from tests.thoroughness import times

ROWS = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    world.publish(world.land(7, ROWS))
    world.land(8, [row(8, 1)])
    return world


def left(world: FeedOnStandIn) -> list[str]:
    """The names of the objects and subfolders that are left in the feed's folder."""
    return sorted({name.split("/")[0] for name in world.state.names()})


def tables(world: FeedOnStandIn) -> set[str]:
    """Which of target and staging exist."""
    names = {table.table_id for table in world.bigquery.list_tables("warehouse")}
    return {kind for kind in ("target", "staging") if getattr(world.feed, kind) in names}


def test_target_stays_as_it_is_and_the_rest_goes(published: FeedOnStandIn, clients: tuple[Storage, BigQuery]) -> None:
    other = FeedOnStandIn(new_feed(), *clients)
    other.publish(other.land(7, ROWS))
    record = operations.retire(published, "keep")
    assert published.rows() == expected(*ROWS)
    assert (record.generation, record.reason) == (1, "no longer needed")
    assert tables(published) == {"target"}
    assert left(published) == ["CURRENT", "fingerprint_seed", "ledger"]
    published.write_reporting_tables()
    status = {r["feed"] for r in published.bigquery.query_and_wait("SELECT feed FROM warehouse.dedup_clone_status")}
    assert (other.feed.feed in status, published.feed.feed in status) == (True, False)


def test_state_that_is_written_while_it_is_deleted_goes_when_the_task_tries_again(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as the progress of a Spark job that only seemed dead. (fake-gcs-server deletes whatever was written.)"""
    monkeypatch.setattr(ObjectStore, "delete", lambda *_, **__: False)
    with pytest.raises(LostRace):
        operations.retire(published, "keep")
    monkeypatch.undo()
    operations.retire(published, "keep")
    assert left(published) == ["CURRENT", "fingerprint_seed", "ledger"]


def test_tables_that_its_attempts_left_go_and_not_those_of_a_feed_with_a_similar_name(published: FeedOnStandIn) -> None:
    left_over = f"{published.feed.target}_incoming_00000001-ab12cd"
    of_others = {f"{published.feed.target}_incoming_{end}" for end in ("00000001", "00000001_incoming_00000001-ab12cd")}
    for name in (left_over, *of_others):
        create_table(published, name)
    operations.retire(published, "drop")
    names = {table.table_id for table in published.bigquery.list_tables("warehouse")}
    assert {name for name in names if name.startswith(f"{published.feed.target}_")} == of_others


def test_no_record_of_a_retired_feed_is_written_again(published: FeedOnStandIn) -> None:
    operations.retire(published, "keep")
    with pytest.raises(ConfigurationError, match="was retired at"):
        operations.recover_records(published)


def test_a_feed_at_work_is_not_retired(published: FeedOnStandIn) -> None:
    published.resolve(published.state.deliveries("arrivals")[-1], run_id="busy")
    published.running = {"busy"}
    with pytest.raises(LeaseHeld):
        operations.retire(published, "drop")
    assert published.state.read("CURRENT")["retired"] is None


def test_a_feed_that_never_published_can_be_retired_unless_its_table_is_of_somebody_else(world: FeedOnStandIn) -> None:
    create_table(world)
    for step in (operations.retirement_preview, operations.retire):
        with pytest.raises(ConfigurationError, match="no live generation"):
            step(world, "drop")
    assert (tables(world), world.state.find("CURRENT")) == ({"target"}, None)
    world.bigquery.delete_table(f"warehouse.{world.feed.target}")
    assert operations.retire(world, "drop").generation is None
    assert left(world) == ["CURRENT"]


def test_a_feed_whose_target_was_dropped_can_be_used_again_from_its_beginning(published: FeedOnStandIn) -> None:
    operations.retire(published, "drop")
    assert tables(published) == set()
    published.state.lose("CURRENT")
    published.publish(published.land(9, [row(9, 4)]))
    assert published.rows() == expected(row(9, 4))


@pytest.mark.parametrize("number", range(3, 15, times(3, 1)))
def test_a_task_that_sleeps_deletes_nothing_of_the_feed_when_it_is_used_again(
    published: FeedOnStandIn, number: int
) -> None:
    """`number`: of the write before which it sleeps, while another try ends the retirement."""
    published.configure(table={"keep_previous": "7d"})
    published.publish(published.state.deliveries("arrivals")[-1])

    def use_again() -> list[str]:
        operations.retire(published, "drop")
        published.state.lose("CURRENT")
        for snapshot_id in (9, 10):
            published.publish(published.land(snapshot_id, [row(snapshot_id, snapshot_id)]))
        return published.state.names()

    with asleep_before_write(number, use_again) as woken, contextlib.suppress(ConfigurationError, LostRace):
        operations.retire(published, "drop")
    assert woken == [published.state.names()]
    assert published.rows() == expected(row(9, 9), row(10, 10))
    assert published.rows(f"{published.feed.target}_previous") == expected(row(9, 9))
    published.publish(published.land(11, [row(11, 9)]))
    assert published.rows() == expected(row(11, 9), row(10, 10))


def test_the_plan_names_what_happens_and_what_waits(published: FeedOnStandIn) -> None:
    text = operations.retirement_preview(published, "drop")
    assert "generation 1, snapshot 7, 3 rows" in text
    assert f"will not be published: {published.state.deliveries('arrivals')[-1]}" in text
    assert "is **dropped**" in text
    assert "can **no longer be erased**" not in text
    kept = operations.retirement_preview(published, "keep")
    assert "go on expiring after 730 days" in kept
    assert "can **no longer be erased**" in kept
