"""Tables that are partitioned by a TIMESTAMP or DATETIME column: the date of a row is the time's date in UTC.

BigQuery's pages "Introduction to partitioned tables" (partitions begin and end in UTC), "Create partitioned tables"
(TIMESTAMP_TRUNC, DATETIME_TRUNC), and "Query partitioned tables" (filters on DATE(column) prune). Random histories by
every engine, day and hour are in tests/contract/engines/test_histories.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

import pyarrow as pa
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage
from pydantic import ValidationError

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import (
    BootstrapRefused,
    CheckFailed,
    ConfigurationError,
    ContractViolation,
    DeliveryRefused,
)
from dedup_clone.contract.table import PartitionBy
from dedup_spark.column_types import arrow_schema
from testkit import operations, runs
from testkit.dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table, parquet
from testkit.feed_on_stand_in import TODAY, YESTERDAY, row
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import PRODUCTS, by_time
from tests.contract.publish.changes_rows import changes

Clients = tuple[Storage, BigQuery]
TOMORROW = TODAY + timedelta(days=1)
NOON, LAST = time(12), time.max  # the last one is a microsecond before midnight
DAY, HOUR = PartitionBy.DAY, PartitionBy.HOUR
BIGQUERY, MERGE, SPARK = Engine.BIGQUERY, Engine.MERGE, Engine.SPARK


def item(
    snapshot_id: int,
    product: int,
    value: int = 20,
    *,
    day: date = TODAY,
    at: time = NOON,
    kind: str = "TIMESTAMP",
) -> Row:
    return {**row(snapshot_id, product, value), "date": datetime.combine(day, at, UTC if kind == "TIMESTAMP" else None)}


def first(kind: str = "TIMESTAMP") -> list[Row]:
    return [
        *(item(7, 1, at=at, kind=kind) for at in (NOON, LAST)),
        *(item(7, 2, day=day, at=at, kind=kind) for day, at in ((YESTERDAY, LAST), (TODAY, time(0)))),
        item(7, 3, day=YESTERDAY, kind=kind),
    ]


def second(kind: str = "TIMESTAMP") -> list[Row]:
    early = time(0, 0, 0, 1)
    return [
        item(8, 1, 21, kind=kind),
        item(8, 2, at=time(0), kind=kind),
        item(8, 4, day=YESTERDAY, at=early, kind=kind),
    ]


def feed_by(clients: Clients, kind: str = "TIMESTAMP", unit: PartitionBy = DAY) -> FeedAgainstOracle:
    return FeedAgainstOracle(clients, feed_with_table(by_time(PRODUCTS, kind, unit)))


@pytest.fixture
def world(clients: Clients) -> FeedAgainstOracle:
    return feed_by(clients)


def published(world: FeedAgainstOracle, *snapshots: Sequence[Row]) -> None:
    """Publish the snapshots, and compare each generation with the oracle's."""
    state = OracleState(world.oracle_table)
    for rows in snapshots:
        snapshot_id = rows[0]["update_id"]
        record = world.publish(world.land(snapshot_id, rows))
        state = state.apply([OracleDelivery(snapshot_id, rows)], TODAY - timedelta(days=729))
        world.assert_equal(state)
        assert {check["level"] for check in world.state.checks(record.attempt, "after").values()} == {"pass"}


@pytest.mark.parametrize(
    ("engine", "kind", "unit"),
    [
        (BIGQUERY, "TIMESTAMP", DAY),
        (MERGE, "DATETIME", DAY),
        (SPARK, "TIMESTAMP", DAY),
        (BIGQUERY, "DATETIME", HOUR),
        (MERGE, "TIMESTAMP", HOUR),
        (SPARK, "DATETIME", HOUR),
    ],
)
def test_each_engine_fills_the_partitions_of_the_times(
    clients: Clients, engine: Engine, kind: str, unit: PartitionBy
) -> None:
    world = feed_by(clients, kind, unit)
    world.configure(engine=engine)
    published(world, first(kind), second(kind))
    hours = [f"{day:%Y%m%d}{hour:02}" for day in (YESTERDAY, TODAY) for hour in (0, 12, 23)]
    of_days = {f"{YESTERDAY:%Y%m%d}": 3, f"{TODAY:%Y%m%d}": 3}
    assert world.rows_by_partition() == (of_days if unit is DAY else dict.fromkeys(hours, 1))
    target = world.bigquery.get_table(f"local-dev.warehouse.{world.feed.target}")
    assert (target.time_partitioning.type_, target.time_partitioning.field) == (unit.name, "date")
    if engine.runs_spark:
        assert operations.audit(world, str(YESTERDAY)) == [(str(YESTERDAY), 2)]


@pytest.mark.parametrize("engine", [BIGQUERY, MERGE, SPARK])
def test_a_row_of_another_day_in_utc_and_a_file_without_the_time_are_refused(
    world: FeedAgainstOracle, engine: Engine
) -> None:
    world.configure(engine=engine)
    schema = arrow_schema(world.table.columns)
    rows = [item(7, 1, at=LAST), item(7, 2, day=TOMORROW, at=time(0))]
    without_time = pa.Table.from_pylist([item(8, 1)], schema=schema).drop_columns(["date"])
    another_day = (
        rf"column \[date\]: 1 rows have another date such as \[{TOMORROW}\], expected its folder's \[{TODAY}\]"
    )
    for snapshot_id, file, said in (
        (7, pa.Table.from_pylist(rows, schema=schema), another_day),
        (8, without_time, r"column \[date\] is missing, expected \[TIMESTAMP\]"),
    ):
        with pytest.raises(DeliveryRefused, match=said):
            world.publish(world.land_files(snapshot_id, {f"date={TODAY}/part-0.parquet": parquet(file)}))


def test_only_the_partitions_of_changed_days_are_loaded(world: FeedAgainstOracle) -> None:
    world.configure(update_id_mode="last_changed")
    days = [TODAY - timedelta(days=number) for number in range(4)]
    world.publish(world.land(7, [item(7, 1, day=day, at=at) for day in days for at in (time(0), LAST)]))
    record = world.publish(world.land(8, [item(8, 1, 30, day=YESTERDAY, at=LAST)]))
    assert world.loads_of(record.attempt) == [f"load_{YESTERDAY:%Y%m%d}"]
    assert world.rows_by_partition() == dict.fromkeys((f"{day:%Y%m%d}" for day in days), 2)
    assert [found[2] for found in world.rows() if found[3] == 8] == [30]


def test_an_id_may_have_several_times_of_a_day_but_not_of_two(world: FeedAgainstOracle) -> None:
    world.configure(checks={"unique_across_dates": ("product_id",)})
    world.publish(world.land(7, [item(7, 1, at=at) for at in (time(0), NOON, LAST)]))
    with pytest.raises(CheckFailed, match="sql_unique_across_dates"):
        world.publish(world.land(8, [item(8, 1, day=YESTERDAY, at=LAST)]))


def test_a_table_by_month_is_kept_through_swaps_that_copy(world: FeedAgainstOracle) -> None:
    world.configure(publish={"swap": "copy"}, table={"partition_by": "month"})
    published(world, first(), second())
    assert world.rows_by_partition() == Counter(f"{one[0]:%Y%m}" for one in world.rows())


@pytest.mark.parametrize("kind", ["TIMESTAMP", "DATETIME"])
def test_what_other_operations_do(clients: Clients, kind: str) -> None:
    """A generation without files is exported by day; then changes, a rebuild, an erasure and a rollback."""
    world = feed_by(clients, kind)
    world.configure(engine="bigquery")
    published(world, first(kind))
    world.configure(engine="spark", changes=True)
    world.publish(world.land(8, second(kind)))
    operations.load_waiting_changes(world)
    found = [(change, product) for _, change, product, _, _ in changes(world)]
    assert sorted(found) == [("changed", 1), ("missing", 1), ("missing", 2), ("missing", 3), ("new", 4)]
    world.roll_back(1)
    assert len(world.rows()) == 5
    world.publish(world.land(9, [item(9, 1, 33, kind=kind)]))
    before = world.table_rows()
    world.configure(table={"cluster_by": ("store_id",)})
    runs.rebuild(world).finish()
    assert world.table_rows() == before
    run = runs.erasure(world, "product_id\n2\n").until("preview")
    assert f"**2**, on: {YESTERDAY}" in run.text
    run.finish()
    assert sorted(found[1] for found in world.rows()) == [1, 1, 3]


@pytest.mark.parametrize(("kind", "zone"), [("TIMESTAMP", "+00"), ("DATETIME", "")])
def test_a_table_is_taken_over(clients: Clients, kind: str, zone: str) -> None:
    world = feed_by(clients, kind)
    columns = ", ".join(f"{column.name} {column.type}" for column in world.feed.table.columns)
    literals = [
        f"({kind} '{one['date']:%Y-%m-%d %H:%M:%S.%f}{zone}', {one['product_id']}, 2072, 1, 20, 7)"
        for one in first(kind)
    ]
    world.query(
        f"CREATE TABLE .{world.feed.target} ({columns}) PARTITION BY {kind}_TRUNC(date, DAY) "
        f"CLUSTER BY product_id, store_id OPTIONS (partition_expiration_days = 730); "
        f"INSERT .{world.feed.target} VALUES {', '.join(literals)}"
    )
    before = world.table_rows()
    runs.bootstrap(world).finish()
    assert world.table_rows() == before
    assert len(before) == 5
    world.publish(world.land(8, second(kind)))
    assert world.rows_by_partition() == {f"{YESTERDAY:%Y%m%d}": 3, f"{TODAY:%Y%m%d}": 3}


# -- By hour --


@pytest.fixture
def hourly(clients: Clients) -> FeedAgainstOracle:
    return feed_by(clients, unit=HOUR)


def test_a_changed_hour_shows_in_its_day(hourly: FeedAgainstOracle) -> None:
    run = runs.publish(hourly, hourly.land(7, first())).until("load")
    hourly.query(f"INSERT .{hourly.feed.staging} VALUES (TIMESTAMP '{TODAY} 05:00:00+00', 9, 9, 9, 9, 7)")
    with pytest.raises(CheckFailed, match=f"{TODAY}: 4 rows, expected 3"):
        run.step("check")


def test_hours_may_expire_while_a_publish_runs(hourly: FeedAgainstOracle) -> None:
    """Of the oldest day that the table retains, one hour after another."""
    hourly.configure(engine="bigquery")
    oldest = TODAY - timedelta(days=99)
    hourly.publish(hourly.land(7, [item(7, n, day=oldest, at=at) for n, at in ((1, time(0)), (2, LAST))]))
    run = runs.publish(hourly, hourly.land(8, [item(8, 2, day=oldest, at=LAST)])).until("resolve")
    hourly.query(f"DELETE FROM .{hourly.feed.target} WHERE product_id = 1")
    with pytest.raises(ContractViolation, match=rf"Date \[{oldest}\] has \[1\] keys in target, expected \[2\]"):
        run.step("dedup")
    hourly.move_clock(timedelta(days=1))
    run.step("dedup")


@pytest.mark.parametrize("engine", [Engine.BIGQUERY, Engine.MERGE])
def test_hours_that_expired_before_the_retention_was_raised_stop_no_publish(
    hourly: FeedAgainstOracle, engine: Engine
) -> None:
    """Of the oldest day that the table retained until now, the first hours are gone, and the last ones stay."""
    hourly.configure(engine=engine, table={"retention_days": 90})
    oldest = TODAY - timedelta(days=89)
    hourly.publish(hourly.land(7, [item(7, n, day=oldest, at=at) for n, at in ((1, time(0)), (2, LAST))]))
    for table in (hourly.feed.target, hourly.feed.staging):
        hourly.query(f"DELETE FROM .{table} WHERE product_id = 1")
    hourly.move_clock(timedelta(days=1))
    hourly.configure(table={"retention_days": 100})
    hourly.publish(hourly.land(8, [item(8, 3)]))
    assert [found[1] for found in hourly.rows()] == [2, 3]
    hourly.publish(hourly.land(9, [item(9, 4, day=oldest, at=LAST)]))
    assert sorted(found[1] for found in hourly.rows()) == [2, 3, 4]


def test_engines_in_sql_restore_hours_by_time_travel(hourly: FeedAgainstOracle) -> None:
    """Their next publish reads target, and no files."""
    hourly.configure(engine="merge")
    for snapshot_id in (7, 8, 9):
        hourly.publish(hourly.land(snapshot_id, [item(snapshot_id, 1, snapshot_id)]))
    hourly.roll_back(1)
    assert [found[2] for found in hourly.rows()] == [7]
    hourly.publish(hourly.land(10, [item(10, 2, 10)]))
    assert [found[2] for found in hourly.rows()] == [7, 10]


def test_hours_are_loaded_whole_and_not_exported(hourly: FeedAgainstOracle) -> None:
    hourly.configure(update_id_mode="last_changed")
    for snapshot_id in (7, 8, 9):
        rows = [item(snapshot_id, 1, snapshot_id), item(snapshot_id, 2, at=LAST)]
        record = hourly.publish(hourly.land(snapshot_id, rows))
        assert hourly.loads_of(record.attempt) == ["load"]
    operations.delete_obsolete(hourly)
    with pytest.raises(ConfigurationError, match=r"Generation \[1\] .* Choose one of: 3 .*, 2 "):
        hourly.roll_back(1)
    hourly.roll_back(2)
    assert [found[2] for found in hourly.rows()] == [8, 20]
    hourly.configure(table={"cluster_by": ("store_id",)})
    with pytest.raises(ConfigurationError, match="a rebuild exports single days"):
        runs.rebuild(hourly).finish()
    hourly.configure(table={"cluster_by": ("product_id", "store_id")})
    hourly.state.lose("data/")
    with pytest.raises(ContractViolation, match="hours cannot be exported by day"):
        hourly.publish(hourly.land(10, [item(10, 1)]))


def test_a_table_is_not_taken_over_by_hour(hourly: FeedAgainstOracle) -> None:
    hourly.query(f"CREATE TABLE .{hourly.feed.target} (x INT64)")
    with pytest.raises((BootstrapRefused, ConfigurationError), match="by hour, and a takeover exports single days"):
        runs.bootstrap(hourly).finish()


def test_what_cannot_work_is_refused_in_the_feed_file(world: FeedAgainstOracle, hourly: FeedAgainstOracle) -> None:
    """BigQuery's page "Quotas and limits": one job may modify 4,000 partitions; a table may have 10,000."""
    hourly.configure(table={"retention_days": 164})
    with pytest.raises(ValidationError, match=r"one job may write 4,000: keep at most \[164\] days"):
        hourly.configure(table={"retention_days": 165})
    with pytest.raises(ValidationError, match=r"engine \[cdc\] is not tried with a partition column of type \[TIMEST"):
        world.configure(engine="cdc", update_id_mode="last_changed")
