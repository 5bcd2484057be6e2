"""The real Spark job beside the engines in SQL: what BigQuery exports, Spark reads, and back, whatever the types.

Also of a table that MERGE maintained, which is taken over with the job and goes on with the next snapshot.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused, ContractViolation
from dedup_clone.contract.request import Duplicates
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.publish.bootstrap.existing_export import export_existing
from testkit.fake_dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.oracle import OracleDelivery, OracleState
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.table_contracts import NESTED
from tests.contract.engines.nested_snapshots import OLDEST
from tests.contract.publish import bootstrap_steps as steps
from tests.shared.random_rows import FIRST_DAY, random_rows

pytestmark = pytest.mark.spark

DAYS = 3
# Without FLOAT64, which BigQuery exports as FLOAT, and with TIMESTAMPs, which it exports as not adjusted to UTC.
EXPORTABLE = replace(
    NESTED,
    columns=(
        *(
            replace(column, fields=tuple(field for field in column.fields if field.type != "FLOAT64"))
            for column in NESTED.columns
            if column.type != "FLOAT64"
        ),
        Column("at", "TIMESTAMP"),
        Column("local", "DATETIME"),
        Column("moments", "TIMESTAMP", ColumnMode.REPEATED),
    ),
)
MOMENT = datetime(2026, 3, 29, 0, 59, 59, 123456, tzinfo=UTC)
Clients = tuple[Storage, BigQuery]


@pytest.fixture
def ours(clients: Clients, real_dedup: SparkDedupProcess) -> FeedAgainstOracle:
    """Engine `spark` is the real job."""
    world = FeedAgainstOracle(clients, feed_with_table(EXPORTABLE))
    world.dedup = real_dedup
    return world


def snapshot(random: Random, number: int) -> list[Row]:
    rows = (row for _ in range(3) for row in random_rows(random, number, DAYS, [number % DAYS]))
    return [exportable(row, random) for row in rows]


def exportable(row: Row, random: Random) -> Row:
    """The row with the columns of EXPORTABLE, on a day within the retention."""
    rest = {name: value for name, value in row.items() if name != "amount"}
    return {
        **rest,
        "day": row["day"] + (OLDEST - FIRST_DAY),
        "info": row["info"] and {"label": row["info"]["label"]},
        "at": random.choice([None, MOMENT, MOMENT + timedelta(hours=1)]),
        "local": random.choice([None, MOMENT.replace(tzinfo=None)]),
        "moments": random.choice([[], [MOMENT], [MOMENT, MOMENT - timedelta(days=1)]]),
    }


def test_spark_goes_on_from_exported_files_and_sql_from_what_spark_wrote(ours: FeedAgainstOracle) -> None:
    expected, random = OracleState(ours.oracle_table), Random(20261121)
    for number, engine in enumerate([Engine.BIGQUERY, Engine.SPARK, Engine.MERGE], start=1):
        rows = snapshot(random, number)
        ours.publish(ours.land(number, rows), engine=engine)
        expected = expected.apply([OracleDelivery(number, rows)], OLDEST)
        ours.assert_equal(expected)


@pytest.mark.exhaustive
def test_a_table_of_all_types_that_merge_maintained_is_taken_over_and_goes_on(
    clients: Clients, ours: FeedAgainstOracle
) -> None:
    merged, random = FeedAgainstOracle(clients, feed_with_table(EXPORTABLE)), Random(20261121)
    expected = OracleState(merged.oracle_table)
    for number in (1, 2):
        rows = snapshot(random, number)
        merged.publish(merged.land(number, rows), engine=Engine.MERGE)
        expected = expected.apply([OracleDelivery(number, rows)], OLDEST)
    record = steps.bootstrap(ours, source_table=f"warehouse.{merged.feed.target}")
    assert ours.table_rows() == merged.table_rows() == expected.table_rows()
    assert (record.rows, record.ties, record.snapshot_id) == (len(expected.rows), 0, 2)

    rows = snapshot(random, 3)
    ours.publish(ours.land(3, rows))
    ours.assert_equal(expected.apply([OracleDelivery(3, rows)], OLDEST))


@pytest.mark.exhaustive
def test_duplicates_of_a_table_to_be_taken_over_are_named_and_then_resolved(
    clients: Clients, ours: FeedAgainstOracle
) -> None:
    merged, random = FeedAgainstOracle(clients, feed_with_table(EXPORTABLE)), Random(7)
    rows = [exportable(row, random) for row in random_rows(random, 1, DAYS, [1])]
    merged.publish(merged.land(1, rows), engine=Engine.MERGE)
    unique, source = merged.table_rows(), merged.feed.target
    merged.bigquery.query_and_wait(f"INSERT INTO warehouse.{source} SELECT * FROM warehouse.{source}")
    spec = steps.begin(ours, source_table=source)
    export_existing(ours.services, spec.attempt)
    with pytest.raises(
        BootstrapRefused, match=rf"\[{len(unique)}\] surplus rows of keys \(name, day, code\) that occur more than once"
    ):
        ours.deduplicate(spec)
    steps.bootstrap(ours, source_table=source, duplicates=Duplicates.KEEP_LATEST)
    assert ours.table_rows() == unique


def test_float64_that_an_export_would_shorten_is_refused_before_the_lease(clients: Clients) -> None:
    """ "Export table data to Cloud Storage", Parquet export details: a floating point column becomes FLOAT."""
    world = FeedAgainstOracle(clients, feed_with_table(NESTED))
    rows = [{**r, "day": r["day"] + (OLDEST - FIRST_DAY)} for r in random_rows(Random(7), 1, DAYS, [1])]
    world.publish(world.land(1, rows), engine=Engine.BIGQUERY)
    with pytest.raises(ContractViolation, match=r"FLOAT64 columns \[amount, info.weight\] lose digits"):
        world.resolve(world.land(2, rows), engine=Engine.SPARK)
    assert world.services.current.read().intent is None
    assert world.live() == "1"
