"""A table that MERGE maintained, taken over with the real Spark job, and the next snapshot on top, of all types."""

from __future__ import annotations

from random import Random

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import BootstrapRefused
from dedup_clone.contract.request import Duplicates
from dedup_clone.publish.bootstrap_export import export_existing
from tests.contract.engines.engine_world import EngineWorld, feed_of
from tests.contract.engines.test_real_spark import DAYS, OLDEST, SparkWorld
from tests.contract.publish import bootstrap_steps as steps
from tests.oracle import OracleDelivery, OracleState
from tests.spark.random_rows import FIRST_DAY, random_rows
from tests.spark.tables import NESTED

pytestmark = pytest.mark.spark


def test_a_table_of_all_types_is_taken_over_and_goes_on(clients: tuple[Storage, BigQuery]) -> None:
    merged, random = EngineWorld(clients, feed_of(NESTED)), Random(20261121)
    expected = OracleState(merged.oracle_table)

    def snapshot(number: int) -> list[dict[str, object]]:
        return [
            {**row, "day": row["day"] + (OLDEST - FIRST_DAY)}
            for _ in range(3)
            for row in random_rows(random, number, DAYS, [number % DAYS])
        ]

    for number in (1, 2):
        rows = snapshot(number)
        merged.publish(merged.land(number, rows), engine=Engine.MERGE)
        expected = expected.apply([OracleDelivery(number, rows)], OLDEST)
    ours = SparkWorld(clients, feed_of(NESTED))
    record = steps.bootstrap(ours, source_table=f"warehouse.{merged.feed.target}")
    assert ours.table_rows() == merged.table_rows() == expected.table_rows()
    assert (record.rows, record.ties, record.snapshot_id) == (len(expected.rows), 0, 2)

    rows = snapshot(3)
    ours.publish(ours.land(3, rows))
    ours.assert_equal(expected.apply([OracleDelivery(3, rows)], OLDEST))


def test_duplicates_are_named_and_then_resolved(clients: tuple[Storage, BigQuery]) -> None:
    merged, random = EngineWorld(clients, feed_of(NESTED)), Random(7)
    rows = [{**r, "day": r["day"] + (OLDEST - FIRST_DAY)} for r in random_rows(random, 1, DAYS, [1])]
    merged.publish(merged.land(1, rows), engine=Engine.MERGE)
    unique, source = merged.table_rows(), merged.feed.target
    merged.bigquery.query_and_wait(f"INSERT INTO warehouse.{source} SELECT * FROM warehouse.{source}")
    ours = SparkWorld(clients, feed_of(NESTED))
    order = steps.begin(ours, source_table=source)
    export_existing(ours.services, order.attempt)
    ours.deduplicate(order)
    with pytest.raises(BootstrapRefused, match=rf"\[{len(unique)}\] rows whose key .* another row has.*such as name="):
        ours.load(order)
    steps.bootstrap(ours, source_table=source, duplicates=Duplicates.KEEP_LATEST)
    assert ours.table_rows() == unique
