"""Plan adopt where deliveries hold keys more than once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from dedup_spark.comparison import duplicate_keys
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.product_rows import FIRST, SCHEMA, found, row, rows

pytestmark = pytest.mark.spark


def test_repeated_keys_of_older_deliveries_are_counted_where_the_newest_has_them(area: SparkJobFeed) -> None:
    tied = area.land(1, rows(1, 1, 1, 1, 2))
    candidate = area.publish(tied, area.land(2, rows(2, 1, 2)))
    assert [metrics.ties for metrics in candidate.deliveries] == [2, 0]
    assert (area.entry(FIRST).plan, area.entry(FIRST).ties) == ("adopt", 2)


def test_of_repeated_keys_that_only_older_deliveries_have_the_greatest_values_survive(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, 1, 5), row(1, 1, 7), row(1, 1, None)]), area.land(2, rows(2, 2)))
    assert found(area) == [(1, 7, 1), (2, 20, 2)]
    assert (area.entry(FIRST).plan, area.entry(FIRST).ties) == ("adopt", 2)


@pytest.mark.parametrize("compare_values", [True, False])
def test_duplicate_that_is_delivered_again_and_again_is_seen_each_time(
    area: SparkJobFeed, compare_values: bool
) -> None:
    area.compare_values = compare_values
    for snapshot_id in (1, 2, 3):
        area.publish(area.land(snapshot_id, [*rows(snapshot_id, *range(300)), row(snapshot_id, 7, 10**6)]))
        entry = area.entry(FIRST)
        assert (entry.plan, entry.ties, entry.rows) == ("adopt", 1, 300)
        assert entry.plan_reason.endswith("[1] surplus rows of repeated keys left out; [1] files written anew")
        assert (7, 10**6, snapshot_id) in found(area)
    area.publish(area.land(4, rows(4, *range(300))))
    assert (area.entry(FIRST).plan, area.entry(FIRST).changed) == ("adopt", 300 if compare_values else None)
    found_by = "fingerprints of the parent stored" if compare_values else "the parent's rows were not compared"
    assert area.entry(FIRST).plan_reason.endswith(found_by)


def test_only_files_that_hold_surplus_rows_are_written_anew(area: SparkJobFeed) -> None:
    """Of two files with the same row one keeps it; a file that has no other row becomes none."""
    for name, products in (("a", (1, 2)), ("b", (3,)), ("c", (1,)), ("d", (2, 4))):
        area.put(1, f"date={FIRST}/{name}.parquet", pa.Table.from_pylist(rows(1, *products), schema=SCHEMA))
    area.put(1, f"date={FIRST}/e.parquet", pa.Table.from_pylist([row(1, 2, 99)], schema=SCHEMA))
    area.publish(area.arrive(1))
    assert found(area) == [(1, 10, 1), (2, 99, 1), (3, 10, 1), (4, 10, 1)]
    entry, files = (
        area.entry(FIRST),
        [(file.path.split("/")[1].split("-")[0], file.rows) for file in area.files().files],
    )
    assert (entry.plan, entry.ties, entry.rows) == ("adopt", 3, 4)
    assert sorted(files) == [("adopted", 1), ("adopted", 1), ("normalized", 1), ("normalized", 1)]


@pytest.mark.exhaustive
@pytest.mark.parametrize(("limit", "most"), [("_MAX_ROWS", 3), ("_MAX_BYTES", 10), ("_MAX_SURPLUS_ROWS", 1)])
def test_more_repeated_keys_than_are_looked_at_are_left_to_spark(
    with_spark: SparkJobFeed, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(duplicate_keys, limit, most)
    area = with_spark
    area.run_tasks_in_this_process()
    for snapshot_id in (1, 2):
        again = [row(snapshot_id, 1, 70), row(snapshot_id, 2, 5)]
        area.publish(area.land(snapshot_id, [*rows(snapshot_id, *range(300)), *again]))
        entry = area.entry(FIRST)
        assert (entry.plan, entry.ties, entry.rows) == ("rewrite", 2, 300)
        assert entry.plan_reason.startswith("not adopted: deliveries have too many rows of repeated keys")
        assert found(area)[1:3] == [(1, 70, snapshot_id), (2, snapshot_id * 10, snapshot_id)]
    area.publish(area.land(3, rows(3, *range(300))))
    assert (area.entry(FIRST).plan, area.entry(FIRST).changed) == ("adopt", 300)
    assert "fingerprints of the parent computed" in area.entry(FIRST).plan_reason
