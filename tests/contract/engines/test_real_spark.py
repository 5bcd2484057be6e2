"""From an engine in SQL to the real Spark job and back: what BigQuery exports, Spark reads, whatever the types."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.publish.orders import PublishOrder
from tests.contract.engines.engine_world import EngineWorld, feed_of
from tests.contract.publish.feed_world import TODAY
from tests.contract.publish.real_dedup import submit_dedup
from tests.oracle import OracleDelivery, OracleState
from tests.spark.random_rows import FIRST_DAY, random_rows
from tests.spark.tables import NESTED

pytestmark = pytest.mark.spark

DAYS = 3
OLDEST = TODAY - timedelta(days=NESTED.retention_days - 1)


class SparkWorld(EngineWorld):
    """Engine `spark` is the job as the DAGs submit it."""

    def deduplicate(self, order: PublishOrder) -> None:
        if order.engine is not Engine.SPARK:
            super().deduplicate(order)
            return
        submit_dedup(self.storage, order.request_uri)


def test_spark_goes_on_from_exported_files_and_sql_from_what_spark_wrote(clients: tuple[Storage, BigQuery]) -> None:
    world, random = SparkWorld(clients, feed_of(NESTED)), Random(20261121)
    expected = OracleState(world.oracle_table)
    for number, engine in enumerate([Engine.BIGQUERY, Engine.SPARK, Engine.MERGE], start=1):
        rows = [
            {**row, "day": row["day"] + (OLDEST - FIRST_DAY)}
            for _ in range(3)
            for row in random_rows(random, number, DAYS, [number % DAYS])
        ]
        world.publish(world.land(number, rows), engine=engine)
        expected = expected.apply([OracleDelivery(number, rows)], OLDEST)
        world.assert_equal(expected)
