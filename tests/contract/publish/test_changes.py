"""The table `FEED_changes`: each publish's changes reach it once, whatever fails, and stop no publish."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import SchemaField
from google.cloud.storage import Client as Storage

from testkit import operations, runs
from testkit.dag_tasks import load_waiting_rows
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, Row, row
from testkit.killed_writes import asleep_before_write
from tests.contract.new_feeds import new_feed
from tests.contract.publish.changes_rows import changes, ledger_figures, pending

SECOND = (row(8, 1, 30), row(8, 3))
OF_SECOND = [(2, "changed", 1, 20, 30), (2, "new", 3, None, 20)]
THIRD, OF_THIRD = (row(9, 1, 31), row(9, 3)), (3, "changed", 1, 30, 31)
FIXED_COLUMNS = {"publish_date", "generation", "snapshot_id", "change_type", "old_row", "new_row"}


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> Iterator[FeedOnStandIn]:
    """A feed with changes and one generation, which has none."""
    world = FeedOnStandIn(new_feed(), *clients)
    world.configure(changes=True)
    assert publish(world, row(7, 1), row(7, 2, day=YESTERDAY)) is None
    yield world
    world.clear_faults()
    world.state_of("_reporting").lose("changes/")


def publish(world: FeedOnStandIn, *rows: Row) -> int | None:
    """Publish the rows as a snapshot, and return how many changes the ledger counts."""
    return world.publish(world.land(rows[0]["update_id"], list(rows))).change_rows


def jobs(world: FeedOnStandIn, generation: int) -> int:
    """How many jobs were made to load the generation's changes."""
    ids = [job.job_id for job in world.jobs() if world.feed.feed in job.job_id]
    return sum("-changes-" in job_id and f"-{generation:08d}-" in job_id for job_id in ids)


def test_the_table_has_old_and_new_rows_and_expires(world: FeedOnStandIn) -> None:
    assert publish(world, *SECOND) == 2
    assert publish(world, row(9, 1, 30), row(9, 3)) == 0
    assert publish(world, row(10, 1, 31)) == 2
    assert changes(world) == [*OF_SECOND, (4, "changed", 1, 30, 31), (4, "missing", 3, 20, 20)]
    table = world.bigquery.get_table(f"warehouse.{world.feed.feed}_changes")
    assert {f.name for f in table.schema} == {*FIXED_COLUMNS, *world.feed.table.keys}
    assert all(f.description for f in table.schema if f.name in FIXED_COLUMNS)
    assert (table.time_partitioning.field, table.clustering_fields) == ("publish_date", ["generation"])
    assert table.time_partitioning.expiration_ms == 60 * 86_400_000
    assert world.state.names("changes/") == []
    world.configure(changes_days=7)
    publish(world, row(11, 1, 32))
    table = world.bigquery.get_table(f"warehouse.{world.feed.feed}_changes")
    assert table.time_partitioning.expiration_ms == 7 * 86_400_000


def test_a_load_that_always_fails_stops_no_publish_and_is_tried_ever_less_often(world: FeedOnStandIn) -> None:
    """Later generations wait for it."""
    world.fail_jobs(f"{world.feed.feed}-00000002.*-changes-", times=1000)
    assert publish(world, *SECOND) == 2
    assert publish(world, *THIRD) == 1
    operations.delete_obsolete(world)
    assert pending(world) == [2, 3]
    tries = []
    for minutes in range(5, 65, 5):  # the first job failed at minute 0, and so do the others for the stand-in's clock
        before = jobs(world, 2)
        world.move_clock(timedelta(minutes=5))
        operations.load_waiting_changes(world)
        tries += [minutes] if jobs(world, 2) > before else []
    assert tries == [5, 10, 20, 40]
    assert (pending(world), changes(world)) == ([2, 3], [])
    late = f"{world.feed.feed}_changes"
    assert late not in operations.late_tables(world)
    world.move_clock(timedelta(hours=6))
    assert late in operations.late_tables(world)
    world.clear_faults()
    operations.load_waiting_changes(world)
    assert changes(world) == [*OF_SECOND, OF_THIRD]
    assert late not in operations.late_tables(world)
    assert pending(world) == []


def test_changes_that_could_not_be_loaded_for_a_week_are_lost(world: FeedOnStandIn) -> None:
    world.fail_jobs(f"{world.feed.feed}-.*-changes-", times=1000)
    publish(world, *SECOND)
    world.move_clock(timedelta(days=6, hours=23))
    operations.load_waiting_changes(world)
    assert pending(world) == [2]
    world.move_clock(timedelta(hours=2))
    operations.load_waiting_changes(world)
    assert (pending(world), changes(world)) == ([], [])
    assert ledger_figures(world) == [(1, None), (2, None)]


def test_the_watchdog_loads_what_is_missing_although_another_feed_is_damaged(
    world: FeedOnStandIn, clients: tuple[Storage, BigQuery], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = FeedOnStandIn(new_feed("a_damaged_"), *clients)
    damaged.configure(changes=True)
    publish(damaged, row(7, 1))
    for one in (damaged, world):
        one.fail_jobs(f"{one.feed.feed}-.*-changes-")
        publish(one, *SECOND)
        one.move_clock(timedelta(minutes=5))
    damaged.state_of("_reporting").damage(f"changes/{damaged.feed.feed}/")
    load_waiting_rows(world, monkeypatch, damaged)
    assert changes(world) == OF_SECOND
    assert (pending(world), pending(damaged)) == ([], [2])


def test_only_the_environment_that_publishes_a_feed_loads_its_changes(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The feed file of another one may say something else of the table."""
    world.fail_jobs(f"{world.feed.feed}-.*-changes-")
    publish(world, *SECOND)
    world.move_clock(timedelta(minutes=5))
    own = world.environment
    for environment, left in (("former.example.org", [2]), (own, [])):
        world.environment = environment
        load_waiting_rows(world, monkeypatch)
        assert pending(world) == left
    assert changes(world) == OF_SECOND


def test_a_rollback_an_engine_in_sql_and_a_discarded_attempt_add_none(world: FeedOnStandIn) -> None:
    publish(world, *SECOND)
    assert world.roll_back(1).change_rows is None
    name = world.land(9, [row(9, 1, 33)])
    dead = runs.publish(world, name).until("check")
    assert world.state.names(f"changes/{dead.attempt}/")
    dead.end()
    assert world.state.names("changes/") == []
    assert publish(world, row(9, 1, 33), row(9, 3)) == 2  # since the rollback
    name = world.state.deliveries("arrivals")[-1]
    assert world.publish(name, replay=True, engine="bigquery", reason="test").change_rows is None
    assert changes(world) == [*OF_SECOND, (5, "changed", 1, 20, 33), (5, "new", 3, None, 20)]


def test_new_columns_are_added_and_a_table_of_other_types_is_made_anew(world: FeedOnStandIn) -> None:
    name = f".{world.feed.feed}_changes"
    fields = "date DATE, product_id INT64, store_id INT64, attribute_id INT64"
    own = (
        "publish_date DATE NOT NULL, generation INT64 NOT NULL, snapshot_id INT64 NOT NULL, change_type STRING NOT NULL"
    )

    def create(columns: str, generation: int) -> None:
        world.query(f"DROP TABLE IF EXISTS {name}")
        world.query(
            f"CREATE TABLE {name} ({own}, {columns}, old_row STRUCT<{columns}>, new_row STRUCT<{columns}>) "
            f"PARTITION BY publish_date CLUSTER BY generation"
        )
        values = f"DATE '{TODAY}', {generation}, 7, 'new'"
        world.query(f"INSERT INTO {name} (publish_date, generation, snapshot_id, change_type) VALUES ({values})")

    create(fields, 1)
    publish(world, *SECOND)
    assert world.query(f"SELECT generation, new_row.attr_value FROM {name} ORDER BY 1, 2") == [
        (1, None),
        (2, 20),
        (2, 30),
    ]
    create(fields.replace("store_id INT64", "store_id STRING"), 2)
    publish(world, *THIRD)
    assert changes(world) == [OF_THIRD]
    assert ledger_figures(world) == [(1, None), (2, None), (3, 1)]


def test_changes_of_a_target_with_policies_are_not_shown_and_a_retired_feed_leaves_none(world: FeedOnStandIn) -> None:
    table = f"warehouse.{world.feed.feed}_changes"
    run = runs.publish(world, world.land(8, list(SECOND))).until("swap")
    world.query(
        f"CREATE ROW ACCESS POLICY only_one ON .{world.feed.target} "
        f"GRANT TO ('user:reader@example.com') FILTER USING (product_id = 1)"
    )
    run.finish()
    assert pending(world) == [2]
    assert table.split(".")[1] not in {found.table_id for found in world.bigquery.list_tables("warehouse")}
    world.query(f"DROP ALL ROW ACCESS POLICIES ON .{world.feed.target}")
    publish(world, *THIRD)
    assert world.bigquery.get_table(table)
    operations.retire(world, "keep")
    assert pending(world) == []
    assert table.split(".")[1] not in {found.table_id for found in world.bigquery.list_tables("warehouse")}


def test_changes_that_policies_hide_are_lost_once_the_feed_file_wants_none(world: FeedOnStandIn) -> None:
    """As the log advises. Else the table would count as late for ever."""
    run = runs.publish(world, world.land(8, list(SECOND))).until("swap")
    world.query(
        f"CREATE ROW ACCESS POLICY only_one ON .{world.feed.target} "
        f"GRANT TO ('user:reader@example.com') FILTER USING (product_id = 1)"
    )
    run.finish()
    world.move_clock(timedelta(hours=7))
    operations.load_waiting_changes(world)
    late = f"{world.feed.feed}_changes"
    assert late in operations.late_tables(world)
    world.configure(changes=False)
    operations.load_waiting_changes(world)
    assert (pending(world), world.state.names("changes/")) == ([], [])
    assert late not in operations.late_tables(world)
    assert ledger_figures(world) == [(1, None), (2, None)]


@pytest.mark.parametrize("number", [1, 2])
def test_a_task_that_slept_while_another_made_the_table_anew_drops_no_loaded_rows(
    world: FeedOnStandIn, number: int
) -> None:
    publish(world, *SECOND)
    world.fail_jobs(f"{world.feed.feed}-.*-changes-")
    publish(world, *THIRD)
    table = world.bigquery.get_table(f"warehouse.{world.feed.feed}_changes")
    table.schema = [*table.schema, SchemaField("of_a_former_file", "INT64")]
    world.bigquery.update_table(table, ["schema"])
    world.move_clock(timedelta(minutes=5))
    with asleep_before_write(number, partial(operations.load_waiting_changes, world)) as woken:
        operations.load_waiting_changes(world)
    assert woken
    assert (changes(world), pending(world)) == ([OF_THIRD], [])
