"""A table gets another partition column as docs/change-a-feed.md says: a copy, taken over by a feed of another name."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

import pytest

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.publish.retirement.retire_feed import RetirementRequest, retire_feed
from dedup_clone.settings.feed import Feed
from dedup_clone.settings.table_settings import ColumnSettings
from dedup_clone.state.retired import TargetAction
from devstack.producer.declared_snapshots import schema
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import REPOSITORY, TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.spark_dedup_process import SparkDedupProcess
from tests.contract.publish import bootstrap_steps as steps

pytestmark = pytest.mark.spark
PAGE = REPOSITORY / "docs" / "change-a-feed.md"


def statements(feed: str) -> list[str]:
    """The SQL of the page's section, for this feed."""
    section = PAGE.read_text().split("## Another partition column\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^ *```sql\n(.*?)^ *```", section, re.DOTALL | re.MULTILINE)
    return [sql.replace("DATASET.", "warehouse.").replace("FEED", feed) for sql in found]


def by_month(feed: Feed) -> Feed:
    """The feed of another name whose table has partitions of months."""
    name, table = f"{feed.feed}_by_month", feed.table
    changes = {
        "columns": (*table.columns, ColumnSettings(name="month", type="DATE")),
        "partition_column": "month",
        "keys": ("month", *table.keys),
        "cluster_by": ("product_id",),
    }
    return feed.model_copy(
        update={
            "feed": name,
            "landing": feed.landing.model_copy(update={"prefix": name}),
            "table": table.model_copy(update=changes),
        }
    )


def land_by_month(world: FeedOnStandIn, snapshot_id: int, rows: list[Row]) -> str:
    files: dict[str, list[dict[str, Any]]] = {}
    for one in rows:
        month: date = one["date"].replace(day=1)
        files.setdefault(f"month={month}/part-0.parquet", []).append({**one, "month": month})
    columns = schema(world.feed.table.to_contract())
    return world.land_files(snapshot_id, {name: parquet_bytes(part, columns) for name, part in files.items()})


def test_a_copy_is_taken_over_by_a_feed_of_another_name(world: FeedOnStandIn, real_dedup: SparkDedupProcess) -> None:
    world.dedup = real_dedup
    first = [row(7, 1), row(7, 2, day=YESTERDAY)]
    world.publish(world.land(7, first))
    copy, _ = statements(world.feed.feed)
    world.bigquery.query_and_wait(copy)
    new = FeedOnStandIn(by_month(world.feed), world.storage, world.bigquery)
    new.dedup = real_dedup

    waiting = land_by_month(new, 8, [row(8, 1, 30), row(8, 3)])
    with pytest.raises(CheckFailed, match="bootstrap the feed from it"):
        new.resolve(waiting)
    steps.bootstrap(new)
    assert new.rows() == world.rows() == expected(*first)
    new.publish(waiting)
    assert new.rows() == expected(row(8, 1, 30), row(8, 3), *first[1:])
    target = new.services.warehouse.table(new.feed.target)
    assert target
    assert (target.partition_column, target.cluster_by) == ("month", ("product_id",))

    retire_feed(world.services, RetirementRequest("feed_retire", "retire", TargetAction.KEEP, "has a successor"))
    assert world.rows() == expected(*first)
    new.publish(land_by_month(new, 9, [row(9, 3, 40, day=TODAY)]))
    assert len(new.rows()) == 3
