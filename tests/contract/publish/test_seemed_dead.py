"""A rebuild or a recovery sleeps before one of its writes, and goes on after another run has ended it: no harm is done.

What it may not leave is what only a person could correct: tables of another layout than the live generation's.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, LostRace
from dedup_clone.warehouse.table_alterations import TableAlterations
from testkit import operations, runs
from testkit.feed_on_stand_in import FeedOnStandIn, expected, row
from testkit.killed_writes import asleep_before_read, asleep_before_write
from tests.contract.new_feeds import new_feed
from tests.contract.publish.existing_tables import as_text, land_declared, with_table
from tests.thoroughness import times

Clients = tuple[Storage, BigQuery]
FIRST = [row(7, 1), row(7, 2, 30)]
RENAMED = {"attr_value": "value"}


def published(clients: Clients) -> FeedOnStandIn:
    world = FeedOnStandIn(new_feed("asleep_"), *clients)
    world.publish(world.land(7, FIRST))
    return world


def changed(world: FeedOnStandIn) -> FeedOnStandIn:
    """The same feed with another feed file, which only a rebuild can publish."""
    feed = with_table(as_text(world.feed), cluster_by=("store_id",))
    return FeedOnStandIn(feed, world.storage, world.bigquery)


def layouts(world: FeedOnStandIn) -> list[tuple[list[str], list[str]]]:
    """The columns and the clustering of target and staging."""
    tables = [world.bigquery.get_table(f"warehouse.{name}") for name in (world.feed.target, world.feed.staging)]
    return [([field.name for field in table.schema], table.clustering_fields) for table in tables]


REBUILT = (["date", "product_id", "store_id", "attribute_id", "value", "update_id", "note"], ["store_id"])


# From the writes before staging is made anew to those before the swap's job.
@pytest.mark.parametrize("number", range(10, 23, times(2, 1)))
@pytest.mark.parametrize("publishes", [False, True])
def test_a_rebuild_that_another_run_ended_leaves_both_tables_as_the_live_generation_has_them(
    clients: Clients, number: int, publishes: bool
) -> None:
    """Then its feed file may be given up, and another rebuild can begin."""
    former = published(clients)
    world, before = changed(former), layouts(former)

    def end() -> None:
        operations.recover_lease(former)
        if publishes:
            former.publish(former.land(8, [row(8, 1, 21)]), run_id="other")

    with asleep_before_write(number, end) as woken, contextlib.suppress(Exception):
        runs.rebuild(world, run_id="asleep", renamed=RENAMED).finish()
    assert woken
    assert layouts(former) == before
    rows = [row(8, 1, 21), FIRST[1]] if publishes else FIRST
    assert former.rows() == expected(*rows)
    former.publish(former.land(9, [row(9, 3, 31)]), run_id="next")
    assert former.rows() == expected(*rows, row(9, 3, 31))
    runs.rebuild(world, run_id="again", renamed=RENAMED).finish()
    assert layouts(former) == [REBUILT] * 2


def test_a_recovery_that_sleeps_leaves_the_layout_of_a_later_rebuild(clients: Clients) -> None:
    former = published(clients)
    world = changed(former)
    runs.rebuild(world, run_id="dead", renamed=RENAMED).until("load")
    set_clustering, woken = TableAlterations.set_clustering, []

    def sleep(*arguments: Any, **options: Any) -> None:
        if not woken:
            woken.append(arguments)
            operations.recover_lease(former, run_id="other")
            runs.rebuild(world, run_id="again", renamed=RENAMED).finish()
        set_clustering(*arguments, **options)

    with patch.object(TableAlterations, "set_clustering", sleep), contextlib.suppress(LostRace):
        operations.recover_lease(former, run_id="asleep")
    assert woken
    assert layouts(world) == [REBUILT] * 2


def test_the_checks_of_a_run_that_was_ended_do_not_say_what_another_run_has_loaded(world: FeedOnStandIn) -> None:
    """A rollback sleeps in its checks, and then counts the rows of the other one."""
    world.configure(publish={"swap": "copy"})  # else the rollback would load nothing
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, [row(8, 1, 21)]))
    asleep = runs.rollback(world, 1).until("load")
    other = runs.publish(world, world.land(9, [row(9, 2, 31), row(9, 3)]), run_id="other")
    with asleep_before_read(2, lambda: other.until("load")), pytest.raises(LostRace):
        asleep.step("check")
    assert world.state.find(f"attempts/{asleep.attempt}/checks_before.json") is None
    other.finish()
    assert world.rows() == expected(row(8, 1, 21), row(9, 2, 31), row(9, 3))


@pytest.mark.parametrize("number", [1, 2])
def test_a_try_of_the_checks_that_only_seemed_dead_replaces_no_later_result(world: FeedOnStandIn, number: int) -> None:
    """Neither what was found, nor what may be swapped, which the next one is swapping."""
    run = runs.publish(world, world.land(7, FIRST)).until("load")
    with asleep_before_write(number, lambda: run.until("swap")), pytest.raises(LostRace):
        run.step("check")
    run.until("commit")
    results = world.state.read(f"attempts/{run.attempt}/checks_after.json")
    assert {item["level"] for item in results["items"]} == {"pass"}


def test_a_try_of_an_export_that_only_seemed_dead_does_not_drop_the_copy(clients: Clients) -> None:
    world = changed(published(clients))
    run = runs.rebuild(world, renamed=RENAMED).until("resolve")
    with asleep_before_write(1, lambda: run.step("export")) as woken, contextlib.suppress(LostRace):
        run.step("export")
    assert woken
    run.finish()
    assert layouts(world) == [REBUILT] * 2


# -- Deleting, by a task that read the state before another run changed it


@pytest.mark.parametrize("last", ["the last task of a rebuild", "the end of a dead attempt"])
def test_the_deliveries_that_a_run_loads_for_its_query_are_not_dropped_by_the_end_of_an_earlier_run(
    world: FeedOnStandIn, last: str
) -> None:
    """The earlier run drops its own table when it has released the lease, and sleeps in between."""
    world.publish(world.land(7, FIRST))
    if last == "the last task of a rebuild":
        world.feed = with_table(world.feed, cluster_by=("store_id",))
        rows, end = [], partial(runs.rebuild(world).until("commit").step, "clean")
    else:
        rows = [row(8, 5)]
        end = runs.publish(world, world.land(8, rows), engine=Engine.BIGQUERY, run_id="dead").until("dedup").end
    later = runs.publish(world, world.land(9, [row(9, 1, 90)]), engine=Engine.MERGE, run_id="later")
    drop, woken = BigQuery.delete_table, []

    def sleep(*arguments: Any, **options: Any) -> None:
        if not woken:
            woken.append(later)
            later.until("dedup")
        drop(*arguments, **options)

    with patch.object(BigQuery, "delete_table", sleep):
        end()
    assert woken
    later.finish()
    assert world.incoming() == []
    assert world.rows() == expected(row(9, 1, 90), FIRST[1], *rows)


def with_float(world: FeedOnStandIn) -> FeedOnStandIn:
    """The feed with a column that an export would change, so that only files can be read."""
    columns = [c.model_dump() for c in world.feed.table.columns]
    world.configure(table={"columns": [{**c, "type": "FLOAT64"} if c["name"] == "attr_value" else c for c in columns]})
    return world


def test_the_files_that_a_rollback_restores_are_not_deleted_while_it_runs(world: FeedOnStandIn) -> None:
    """By the last task of the publish before, which sleeps when it has decided what to delete.

    So the rollback leaves alone what that task may be deleting, although it is still there.
    """
    with_float(world)
    world.configure(publish={"swap": "copy"})  # else time travel could restore the first generation
    for number in (7, 8, 9):
        world.publish(land_declared(world, number, [row(number, 1, number)]))

    def begin_rollback() -> runs.Run:
        with pytest.raises(ConfigurationError, match=r"Choose one of: 3 \(snapshot 9\), 2 \(snapshot 8\);"):
            runs.rollback(world, 1).until("resolve")
        return runs.rollback(world, 2).until("resolve")

    with asleep_before_write(1, begin_rollback) as woken:
        operations.delete_obsolete(world)
    (run,) = woken
    assert world.state.generations("data") == [2, 3]
    operations.delete_obsolete(world)
    run.finish()
    operations.delete_obsolete(world)
    world.publish(land_declared(world, 10, [row(10, 2, 10)]))
    assert world.rows() == expected(row(8, 1, 8), row(10, 2, 10))


ACCEPTS: dict[str, Any] = {"replay": True, "accepted_checks": ("new_share",), "reason": "right", "run_id": "by-hand"}


# The end of the attempt releases the lease, and then reads CURRENT: read 15.
@pytest.mark.parametrize(
    ("last", "number"), [("a prune", 3), ("the end of the attempt", 15), ("the end of the attempt", 16)]
)
def test_the_files_of_a_stopped_attempt_are_not_deleted_while_a_replay_publishes_them(
    world: FeedOnStandIn, last: str, number: int
) -> None:
    """`number`: of a read before that of the deliveries that are held."""
    world.configure(checks={"max_new_share": 0.2})
    world.publish(world.land(7, FIRST))
    garbage = [row(8, product) for product in range(10)]
    name = world.land(8, garbage)
    run = runs.publish(world, name).until("load")
    with pytest.raises(CheckFailed):
        run.step("check")
    if last == "a prune":
        run.end()
    delete: Any = partial(operations.delete_obsolete, world) if last == "a prune" else run.end
    with asleep_before_read(number, partial(world.publish, name, **ACCEPTS)) as woken:
        delete()
    assert woken
    assert [record.outcome for record in woken] == ["published"]
    assert world.state.generations("data") == [1, 2]
    world.publish(world.land(9, [row(9, 1)]), engine="spark")
    assert world.rows() == expected(row(9, 1), *(one for one in garbage if one["product_id"] != 1))
