"""Feeds that delete what the newest snapshot lacks: checks bound it, and a person may accept it.

Random histories compare the table with the oracle's (test_histories.py).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.table import Absent
from dedup_clone.settings.check_settings import CheckSettings
from testkit import deliveries, operations, runs
from testkit.feed_against_oracle import NO_LIMITS, FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, YESTERDAY, row
from testkit.table_contracts import PRODUCTS
from tests.contract.engines.streamed_feed import Clients, feed_with, load_jobs

KEEP, DELETE = Absent
DAYS = [TODAY - timedelta(days=number) for number in range(3)]
# A share of 5 % is the default bound.
GUARDED = CheckSettings(max_new_share=1, max_changed_share=1, max_times_usual=None)


def feed_that_deletes(clients: Clients, engine: Engine, dates: Absent) -> FeedAgainstOracle:
    table = replace(PRODUCTS, absent_keys=DELETE, absent_dates=dates)
    if engine is Engine.CDC:
        return feed_with(clients, table)
    return FeedAgainstOracle(clients, feed_with_table(table, engine))


@pytest.mark.parametrize("engine", Engine)
def test_a_half_empty_snapshot_deletes_nothing_until_a_person_has_seen_what_it_would_delete(
    streaming_clients: Clients, engine: Engine
) -> None:
    world = feed_that_deletes(streaming_clients, engine, KEEP)
    world.feed = world.feed.model_copy(update={"checks": GUARDED})
    whole = [row(1, product) for product in range(20)] + [row(1, 1, day=YESTERDAY)]
    world.publish(world.land(1, whole))
    before = world.table_rows()
    half = [row(2, product) for product in range(10)] + [row(2, 1, day=YESTERDAY)]
    name = world.land(2, half)
    run = runs.publish(world, name, run_id="half-empty")
    with pytest.raises(CheckFailed, match="deleted_share"):
        run.finish()
    assert not run.end()
    assert (world.table_rows(), deliveries.held_deliveries(world)) == (before, [name])
    accepts = {"replay": True, "accepted_checks": ("deleted_share",), "reason": "they are gone"}
    shown = deliveries.dry_run_of(world, name, **accepts)
    assert f"10 of 21 rows deleted (47.6190%); most on {TODAY}: 10 of 20" in shown
    assert "keys that they lack are deleted on dates that they have" in shown
    world.publish(name, run_id="accepted", **accepts)
    assert {(found[0][1], found[1][1]) for found in world.table_rows()} == {
        *((TODAY, product) for product in range(10)),
        (YESTERDAY, 1),
    }
    (today, _) = sorted(world.manifest().dates, key=lambda entry: entry.date, reverse=True)
    assert (today.rows, today.deleted) == (10, 10)


def test_dates_that_would_be_deleted_are_bounded(clients: Clients) -> None:
    """By default one date may go. Its rows do not count as deleted keys."""
    world = feed_that_deletes(clients, Engine.BIGQUERY, DELETE)
    world.feed = world.feed.model_copy(update={"checks": GUARDED})
    world.publish(world.land(1, [row(1, 1, day=day) for day in DAYS]))
    world.publish(world.land(2, [row(2, 1, day=day) for day in DAYS[:2]]))
    assert world.manifest().deleted_dates == {DAYS[2]: 1}
    world.feed = world.feed.model_copy(update={"checks": GUARDED.model_copy(update={"max_missing_dates": 0})})
    run = runs.publish(world, world.land(3, [row(3, 1)]))
    with pytest.raises(CheckFailed, match=rf"missing_dates: \[1 missing: {YESTERDAY} \(its 1 rows are deleted\)\]"):
        run.finish()


def test_deleted_keys_are_streamed_as_such(streaming_clients: Clients) -> None:
    """No load job fills staging, and a key that returns later is there again."""
    world = feed_that_deletes(streaming_clients, Engine.CDC, KEEP)
    world.feed = world.feed.model_copy(update={"checks": NO_LIMITS})
    world.publish(world.land(1, [row(1, product) for product in range(5)]))
    for number, products in ((2, [0, 1, 2]), (3, [0, 1, 2, 4])):
        record = world.publish(world.land(number, [row(number, product) for product in products]), run_id=str(number))
        assert not load_jobs(world, record)
        assert world.query(f"SELECT product_id FROM .{world.feed.target} ORDER BY 1") == [(one,) for one in products]


def test_the_table_of_changes_has_the_deleted_rows(clients: Clients) -> None:
    world = feed_that_deletes(clients, Engine.SPARK, DELETE)
    world.feed = world.feed.model_copy(update={"changes": True})
    world.publish(world.land(1, [row(1, 1), row(1, 2), row(1, 3, day=YESTERDAY)]))
    world.publish(world.land(2, [row(2, 1)]))
    operations.load_waiting_changes(world)
    columns = "change_type, date, product_id, old_row.product_id AS old, new_row IS NULL AS has_no_new_row"
    assert world.query(f"SELECT {columns} FROM .{world.feed.target}_changes ORDER BY product_id") == [
        ("deleted", TODAY, 2, 2, True),
        ("deleted", YESTERDAY, 3, 3, True),
    ]
