"""Files without partition column and snapshot id, published by the real Spark job; an engine in SQL refuses them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dedup_clone.contract.errors import DeliveryRefused
from testkit.fake_dedup_job import SCHEMA, Row, parquet_bytes
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, expected, row
from testkit.spark_dedup_process import SparkDedupProcess

HIVE = SCHEMA.remove(SCHEMA.get_field_index("date"))
BARE = HIVE.remove(HIVE.get_field_index("update_id"))
FIRST = [row(7, 1), row(7, 2), row(7, 3, day=YESTERDAY)]
SECOND = [row(8, 1, 21), row(8, 4)]


def land(world: FeedOnStandIn, snapshot_id: int, rows: Sequence[Row]) -> str:
    """Land the rows in Hive's layout; today's files lack the snapshot id, too."""
    files = {}
    for day, schema in ((TODAY, BARE), (YESTERDAY, HIVE)):
        found = [{name: one[name] for name in schema.names} for one in rows if one["date"] == day]
        if found:
            files[f"date={day}/part-0.parquet"] = parquet_bytes(found, schema)
    return world.land_files(snapshot_id, files)


def test_folders_give_the_columns_that_files_lack(world: FeedOnStandIn, real_dedup: SparkDedupProcess) -> None:
    world.dedup = real_dedup
    world.configure(publish={"swap": "copy"})
    world.publish(land(world, 7, FIRST))
    assert world.rows() == expected(*FIRST)
    world.publish(land(world, 8, SECOND))
    assert world.rows() == expected(*SECOND, *FIRST[1:])
    world.publish(world.land(9, [row(9, 4, 40)]))
    assert world.rows() == expected(SECOND[0], row(9, 4, 40), *FIRST[1:])


def test_an_engine_in_sql_refuses_them(world: FeedOnStandIn) -> None:
    name = land(world, 7, FIRST)
    with pytest.raises(DeliveryRefused, match=r"column \[date\] is missing(?s:.*)column \[update_id\] is missing"):
        world.publish(name, engine="bigquery", replay=True, reason="without Spark")
