"""A table gets another partition column as docs/feeds.md says: a copy, taken over by a feed of another name."""

from __future__ import annotations

import re
from typing import Any

import pytest

from dedup_clone.contract.errors import CheckFailed
from dedup_clone.settings.feed import Feed
from devstack.producer.declared_snapshots import schema
from testkit import operations, runs
from testkit.fake_dedup_job import Row, parquet_bytes
from testkit.feed_on_stand_in import REPOSITORY, YESTERDAY, FeedOnStandIn, expected, row

PAGE = REPOSITORY / "docs" / "feeds.md"


def statements(feed: str) -> list[str]:
    """The SQL of the page's section, for this feed."""
    section = PAGE.read_text().split("### Change the partition column\n", 1)[1].split("\n#", 1)[0]
    found = re.findall(r"^ *```sql\n(.*?)^ *```", section, re.DOTALL | re.MULTILINE)
    return [sql.replace("DATASET.", "warehouse.").replace("FEED", feed) for sql in found]


def by_month(feed: Feed) -> Feed:
    """The feed of another name whose table has partitions of months."""
    name, values = f"{feed.feed}_by_month", feed.model_dump()
    table = values["table"]
    table |= {
        "columns": [*table["columns"], {"name": "month", "type": "DATE"}],
        "partition_column": "month",
        "keys": ("month", *table["keys"]),
        "cluster_by": ("product_id",),
    }
    landing = {**values["landing"], "prefix": name}
    return Feed.model_validate({**values, "feed": name, "landing": landing, "table": table}, strict=False)


def land_by_month(world: FeedOnStandIn, snapshot_id: int, rows: list[Row]) -> str:
    files: dict[str, list[dict[str, Any]]] = {}
    for one in rows:
        month = one["date"].replace(day=1)
        files.setdefault(f"month={month}/part-0.parquet", []).append({**one, "month": month})
    columns = schema(world.feed.table.to_contract())
    return world.land_files(snapshot_id, {name: parquet_bytes(part, columns) for name, part in files.items()})


def test_a_copy_is_taken_over_by_a_feed_of_another_name(world: FeedOnStandIn) -> None:
    first = [row(7, 1), row(7, 2, day=YESTERDAY)]
    world.publish(world.land(7, first))
    copy, _ = statements(world.feed.feed)
    world.bigquery.query_and_wait(copy)
    new = FeedOnStandIn(by_month(world.feed), world.storage, world.bigquery)
    waiting = land_by_month(new, 8, [row(8, 1, 30), row(8, 3)])
    with pytest.raises(CheckFailed, match="bootstrap the feed from it"):
        new.resolve(waiting)
    runs.bootstrap(new).finish()
    assert new.rows() == world.rows() == expected(*first)
    new.publish(waiting)
    assert new.rows() == expected(row(8, 1, 30), row(8, 3), *first[1:])
    target = new.bigquery.get_table(f"warehouse.{new.feed.target}")
    assert (target.time_partitioning.field, target.clustering_fields) == ("month", ["product_id"])
    operations.retire(world, "keep")
    assert world.rows() == expected(*first)
    new.publish(land_by_month(new, 9, [row(9, 3, 40)]))
    assert len(new.rows()) == 3
