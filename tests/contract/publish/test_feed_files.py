"""A feed is one file: DAGs, tables, landing, the real dedup job, load, checks and swap follow from it alone."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.settings.feed import Feed
from dedup_clone.state.ledger import LedgerRecord
from devstack.producer import declared_snapshots, feeds, landing
from testkit.feed_on_stand_in import REPOSITORY, TODAY, FeedOnStandIn
from testkit.spark_dedup_process import SparkDedupProcess

Rows = dict[tuple[Any, ...], dict[str, Any]]
FEW_ROWS = 40

ANOTHER_FEED = """
feed: shop_returns
description: Returned goods.
owner: data-platform
landing: {prefix: shop_returns}
table:
  columns:
    - {name: load_no, type: INT64}
    - {name: ticket, type: BYTES}
    - {name: scanned_at, type: TIMESTAMP}
    - {name: returned_on, type: DATE}
    - {name: reasons, type: STRING, mode: REPEATED}
    - {name: refund, type: NUMERIC}
  partition_column: returned_on
  snapshot_id_column: load_no
  keys: [ticket, scanned_at, returned_on]
  retention_days: 30
checks: {max_missing_dates: 30, max_new_share: 1.0, max_survivor_share: 1.0, max_changed_share: 1.0}
"""


class FileWorld:
    """A feed file's feed, published with the real job from what the producer makes of the file."""

    def __init__(self, feed: Feed, clients: tuple[Storage, BigQuery], job: SparkDedupProcess) -> None:
        self.world = FeedOnStandIn(feed, *clients)
        self.world.dedup = job
        self.table = feeds.table_of(feed)

    def publish(self, snapshot_id: int, rows: pa.Table) -> LedgerRecord:
        world = self.world
        bucket = world.storage.bucket("landing")
        landing.land(bucket, world.feed.feed, snapshot_id, rows, feeds.landing_layout(world.feed))
        services = world.services
        (marker,) = services.arrivals.unregistered(services.landing.markers())
        services.arrivals.register(services.landing, marker)
        return world.publish(marker.delivery.name)

    def keyed(self, rows: list[dict[str, Any]]) -> Rows:
        found = {tuple(row[key] for key in self.table.keys): row for row in rows}
        assert len(found) == len(rows)
        return found

    def published(self) -> Rows:
        sql = f"SELECT * FROM warehouse.{self.world.feed.target}"
        return self.keyed([dict(row.items()) for row in self.world.bigquery.query_and_wait(sql)])


@pytest.mark.exhaustive
def test_feed_of_another_shape_is_published_by_its_file_alone(
    clients: tuple[Storage, BigQuery], real_dedup: SparkDedupProcess
) -> None:
    """Text and date keys, nested values, another marker and no date folders: two snapshots, equal to a plain fold."""
    feed = FileWorld(feeds.read("store_visits"), clients, real_dedup)
    first = declared_snapshots.first(feed.table, TODAY, 1, 7, FEW_ROWS)
    feed.publish(1, first)
    assert feed.published() == feed.keyed(first.to_pylist())
    second, said = declared_snapshots.following(feed.table, first, TODAY, 2, 7, FEW_ROWS)
    record = feed.publish(2, second)
    assert feed.published() == {**feed.keyed(first.to_pylist()), **feed.keyed(second.to_pylist())}
    assert (record.new_rows, record.kept_rows, record.rows) == (said.new, said.missing, first.num_rows + said.new)
    staging = feed.world.bigquery.get_table(f"warehouse.{feed.world.feed.staging}")
    assert [(f.name, f.field_type, f.mode) for f in staging.schema if f.name in ("store_code", "baskets")] == [
        ("store_code", "STRING", "REQUIRED"),
        ("baskets", "RECORD", "REPEATED"),
    ]


@pytest.fixture
def dags(tmp_path: Path) -> Path:
    """The shipped DAGs and one more feed file."""
    dags = tmp_path / "dags"
    shutil.copytree(REPOSITORY / "dags", dags)
    shutil.copytree(REPOSITORY / "sql", dags / "sql")
    (dags / "feeds" / "shop_returns.yaml").write_text(ANOTHER_FEED)
    return dags


def test_feed_is_added_by_adding_one_file(dags: Path) -> None:
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(str(dags))
    assert bag.import_errors == {}
    assert {"shop_returns_publish", "shop_returns_watch", "store_visits_publish"} <= set(bag.dags)


@pytest.mark.exhaustive
def test_feed_of_an_added_file_is_published(
    clients: tuple[Storage, BigQuery], real_dedup: SparkDedupProcess, dags: Path
) -> None:
    feed = FileWorld(feeds.read("shop_returns", dags / "feeds"), clients, real_dedup)
    rows = declared_snapshots.first(feed.table, TODAY - timedelta(days=1), 5, 7, FEW_ROWS)
    record = feed.publish(5, rows)
    assert record.rows == rows.num_rows
    assert feed.published() == feed.keyed(rows.to_pylist())


@pytest.mark.parametrize("name", feeds.feed_names())
def test_producer_makes_snapshots_of_every_feed_file(name: str) -> None:
    table = feeds.table_of(feeds.read(name))
    rows = declared_snapshots.first(table, TODAY, 1, 7, FEW_ROWS)
    assert rows.schema.names == [c.name for c in table.columns]
