"""The costs that the ledger compares a publish with, against what BigQuery bills when MERGE or QUALIFY really runs."""

from __future__ import annotations

import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.billing import MIN_BYTES_BILLED, TIB, USD_PER_TIB
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.table import Column, TableContract
from dedup_clone.publish.attempt_jobs import attempt_job_id
from dedup_clone.publish.records.publish_costs import expected_cost
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY

PAGES = TableContract(
    columns=(Column("day", "DATE"), Column("id", "INT64"), Column("text", "STRING"), Column("version", "INT64")),
    partition_column="day",
    snapshot_id_column="version",
    keys=("day", "id"),
    cluster_by=("id",),
    retention_days=730,
)
ROWS = 300


@pytest.mark.parametrize(
    "text_bytes",
    [
        pytest.param(10, id="below the minimum charge"),
        pytest.param(40_000, id="12 MB"),
    ],
)
@pytest.mark.parametrize("engine", [pytest.param(Engine.BIGQUERY, marks=pytest.mark.exhaustive), Engine.MERGE])
def test_the_alternatives_cost_what_they_are_billed(
    clients: tuple[Storage, BigQuery], engine: Engine, text_bytes: int
) -> None:
    feed = FeedAgainstOracle(clients, feed_with_table(PAGES))
    feed.publish(feed.land(1, pages(1, text_bytes)), engine=engine)
    record = feed.publish(feed.land(2, pages(2, text_bytes)), engine=engine)
    assert record.cost is not None
    assert "spark_start" not in record.phases
    assert record.lag_s is not None
    assert sum(record.phases.values()) == pytest.approx(record.lag_s, abs=0.001)
    statement = feed.services.warehouse.job(attempt_job_id(feed.feed.feed, record.attempt, "load", 1))
    assert statement is not None
    assert statement.bytes_billed >= 2 * MIN_BYTES_BILLED
    claimed = record.cost.merge_usd if engine is Engine.MERGE else record.cost.qualify_usd
    assert claimed == pytest.approx(statement.bytes_billed / TIB * USD_PER_TIB, rel=0.1)
    staging = feed.services.warehouse.table(feed.feed.staging)
    assert staging is not None
    planned = expected_cost(engine, PAGES, staging.size / staging.rows, delivered=ROWS, existing=ROWS)
    one_minimum_usd = MIN_BYTES_BILLED / TIB * USD_PER_TIB
    assert planned.query_usd == pytest.approx(record.cost.query_usd, rel=0.1, abs=one_minimum_usd)


def pages(version: int, text_bytes: int) -> list[dict[str, object]]:
    text = str(version) * text_bytes
    return [{"day": TODAY, "id": number, "text": text, "version": version} for number in range(ROWS)]
