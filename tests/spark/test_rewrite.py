"""Plan rewrite: what it reads and writes, and which dates it leaves to Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dedup_clone.checks.check_result import Level
from dedup_clone.checks.manifest_checks import check_missing_dates
from dedup_clone.checks.share_checks import shares
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import Difference
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.settings.check_settings import CheckSettings
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison import duplicate_keys, key_reader
from dedup_spark.output import sorted_files
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SECOND, files_of, found, path, row, rows

pytestmark = pytest.mark.spark


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    """An area without Spark, so that whatever needs Spark fails."""
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=Plan.REWRITE)


def test_a_small_date_becomes_one_file_sorted_by_the_clustering_columns(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *(n * 7919 % 1000 for n in range(1000)))))
    area.publish(area.land(2, rows(2, *(n * 7919 % 1000 for n in range(0, 1000, 3)))))
    (file,) = files_of(area, FIRST)
    products = pq.read_table(path(area, file), partitioning=None)["product_id"].to_pylist()
    assert products == list(range(1000))
    entry = area.entry(FIRST)
    assert (entry.plan, entry.new_keys, entry.changed, entry.survivors) == ("rewrite", 0, 334, 666)
    assert entry.plan_reason == "asked for: every date is written anew; all keys compared"
    assert (file.min_update_id, file.max_update_id) == (1, 2)


@pytest.mark.parametrize("plan", [Plan.REWRITE, pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive)])
def test_a_date_that_the_delivery_lacks_is_written_anew_and_still_found_missing(
    with_spark: SparkJobFeed, plan: Plan
) -> None:
    with_spark.plan = plan
    with_spark.publish(with_spark.land(1, [row(1, 1, 1), row(1, 2, 2, SECOND)]))
    before, parent = path(with_spark, *files_of(with_spark, SECOND)), with_spark.manifest
    with_spark.publish(with_spark.land(2, [row(2, 1, 1)]))
    assert with_spark.manifest
    missing = check_missing_dates(with_spark.manifest, CheckSettings(max_missing_dates=0))
    assert (missing.level, missing.found) == (Level.FAIL, f"1 missing: {SECOND}")
    assert set(shares(with_spark.manifest, parent).values()) == {0.0}
    assert path(with_spark, *files_of(with_spark, SECOND)) != before


def test_a_large_date_becomes_files_of_about_the_requested_size(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_reader, "_BATCH_ROWS", 1000)
    monkeypatch.setattr(sorted_files, "_MAX_RUN_ROWS", 1000)
    area.file_bytes = 20_000
    area.publish(area.land(1, [row(1, n, n * 7919 % 100003) for n in range(20_000)]))
    *full, last = files_of(area, FIRST)
    assert len(full) > 2
    assert all(20_000 <= file.size < 40_000 for file in full)
    assert sum(file.rows for file in (*full, last)) == 20_000


def test_dates_that_no_delivery_has_are_rewritten_too(area: SparkJobFeed) -> None:
    area.plan = Plan.AUTO
    area.publish(area.land(1, rows(1, 1) + rows(1, 1, 2, day=SECOND)))
    area.publish(area.land(2, rows(2, 1) + rows(2, 2, day=SECOND)))
    area.plan = Plan.REWRITE
    area.publish(area.land(3, rows(3, 1)))
    (file,) = files_of(area, SECOND)
    entry = area.entry(SECOND)
    assert (entry.plan, entry.rows, entry.survivors, entry.changed) == ("carried", 2, 1, 0)
    assert "rewritten" in file.path
    area.plan = Plan.AUTO
    area.publish(area.land(4, rows(4, 1) + rows(4, 2, 3, day=SECOND)))
    assert "fingerprints of the parent stored" in area.entry(SECOND).plan_reason
    assert area.entry(SECOND).survivors == 1


def test_a_late_snapshot_is_streamed_and_leaves_the_fingerprints_as_they_are(area: SparkJobFeed) -> None:
    area.plan = Plan.AUTO
    area.publish(area.land(7, rows(7, 1, 2)))
    area.publish(area.land(3, rows(3, 1, 9)))
    assert area.entry(FIRST).plan == "rewrite"
    area.publish(area.land(5, rows(5, 1, 9)))
    assert (area.entry(FIRST).changed, area.entry(FIRST).survivors) == (1, 1)
    area.publish(area.land(8, rows(8, 1, 2, 3)))
    assert "fingerprints of the parent stored" in area.entry(FIRST).plan_reason
    assert found(area) == [(1, 80, 8), (2, 80, 8), (3, 80, 8), (9, 50, 5)]


def test_a_rewritten_correction_leaves_no_fingerprints_of_its_own(area: SparkJobFeed) -> None:
    """Rows that the correction lacks have its update_id too, so its fingerprints are not those of the update_id."""
    area.publish(area.land(7, rows(7, 1, 2)))
    area.publish(area.land(7, [row(7, 1, 5)]))
    area.plan = Plan.AUTO
    assert found(area) == [(1, 5, 7), (2, 70, 7)]
    area.publish(area.land(8, rows(8, 1)))
    assert "fingerprints of the parent computed" in area.entry(FIRST).plan_reason
    assert found(area) == [(1, 80, 8), (2, 70, 7)]


def test_fingerprints_of_a_rewritten_date_are_used_by_the_next_adoption(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *range(500))))
    area.publish(area.land(2, rows(2, *range(10, 510))))
    area.plan = Plan.AUTO
    area.publish(area.land(3, rows(3, *range(10, 510))))
    entry = area.entry(FIRST)
    assert (entry.plan, entry.survivors, entry.changed) == ("adopt", 10, 500)
    assert "fingerprints of the parent stored" in entry.plan_reason


def test_several_deliveries_and_many_repeated_keys_are_left_to_spark(
    with_spark: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    area = with_spark
    area.run_tasks_in_this_process()
    area.publish(area.land(1, rows(1, 1, 2)), area.land(2, rows(2, 1)))
    assert area.entry(FIRST).plan_reason.endswith("written by Spark: [2] deliveries have the date")
    monkeypatch.setattr(duplicate_keys, "_MAX_ROWS", 1)
    candidate = area.publish(area.land(3, [row(3, 1, 5), row(3, 1, 6)]))
    assert "written by Spark: deliveries have too many rows of repeated keys" in area.entry(FIRST).plan_reason
    assert candidate.deliveries[0].ties == area.entry(FIRST).ties == 1


@pytest.mark.parametrize("mode", list(UpdateIdMode))
def test_of_duplicate_keys_the_greatest_values_are_written(area: SparkJobFeed, mode: UpdateIdMode) -> None:
    """In a new date, in a date that is compared, and when the same duplicate is delivered again."""
    area.mode = mode
    for snapshot_id in (1, 2, 3):
        twice = [row(snapshot_id, 1, 5), row(snapshot_id, 1, 6), row(snapshot_id, 1, None), row(snapshot_id, 2, 7)]
        candidate = area.publish(area.land(snapshot_id, twice))
        written = snapshot_id if mode is UpdateIdMode.LAST_SEEN else 1
        assert found(area) == [(1, 6, written), (2, 7, written)]
        entry = area.entry(FIRST)
        assert (entry.plan, entry.ties, candidate.deliveries[0].ties) == ("rewrite", 2, 2)
        assert entry.changed == 0


def test_files_of_several_dates_are_left_to_spark_and_those_of_other_types_are_not(with_spark: SparkJobFeed) -> None:
    area = with_spark
    area.date_folders = False
    schema = arrow_schema(PRODUCTS.columns)
    area.put(1, "two.parquet", pa.Table.from_pylist(rows(1, 1) + rows(1, 1, day=SECOND), schema=schema))
    area.publish(area.arrive(1))
    assert "written by Spark: file" in area.entry(FIRST).plan_reason
    narrow = schema.set(schema.get_field_index("attr_value"), pa.field("attr_value", pa.int32()))
    area.put(2, "narrow.parquet", pa.Table.from_pylist(rows(2, 1), schema=narrow))
    area.publish(area.arrive(2))
    assert area.entry(FIRST).plan_reason.endswith("all keys compared")
    assert {pq.read_schema(path(area, file)) for file in files_of(area, FIRST)} == {schema}
    assert sorted((r["date"], r["attr_value"]) for r in area.rows()) == [(FIRST, 20), (SECOND, 10)]


def test_manifest_has_examples_and_costs(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1, 2, 3)))
    candidate = area.publish(area.land(2, rows(2, 2, 3, 4)))
    keys = {difference: [e.key for e in candidate.examples if e.difference is difference] for difference in Difference}
    assert keys[Difference.NEW] == ["product_id=4, store_id=2072, attribute_id=1"]
    assert keys[Difference.SURVIVOR] == ["product_id=1, store_id=2072, attribute_id=1"]
    assert len(keys[Difference.CHANGED]) == 2
    (metrics,) = candidate.metrics.dates
    assert metrics.bytes_read > 0
    assert metrics.bytes_written > sum(file.size for file in files_of(area, FIRST))
    assert metrics.seconds is not None


def test_state_that_lost_rows_is_noticed(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1, 2, 3)))
    (file,) = files_of(area, FIRST)
    table = pq.read_table(path(area, file), partitioning=None)
    path(area, file).unlink()
    pq.write_table(table.filter(pc.not_equal(table["product_id"], 3)), path(area, file))
    with pytest.raises(ContractViolation, match="its data files were changed"):
        area.publish(area.land(2, rows(2, 1)))


def test_replay_of_what_is_live_reads_nothing_at_all(area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    area.plan = Plan.AUTO
    area.publish(area.land(1, rows(1, 1, 2)))
    arrival = area.land(2, rows(2, 1) + rows(2, 5, day=SECOND))
    area.publish(arrival)
    before, names = list(area.manifest.dates if area.manifest else ()), {file.path for file in area.files().files}
    Path(area.uri(arrival.objects[0].name)).unlink()
    monkeypatch.setattr(pq, "ParquetFile", None)
    candidate = area.replay(arrival)
    monkeypatch.undo()
    assert candidate.manifest
    assert candidate.manifest.applied == (arrival.delivery,)
    assert (candidate.metrics.bytes_read, candidate.metrics.bytes_written, candidate.metrics.dates) == (0, 0, ())
    assert {file.path for file in area.files().files} == names
    assert [(e.date, e.plan, e.files_digest) for e in candidate.manifest.dates] == [
        (e.date, e.plan, e.files_digest) for e in before
    ]
    assert "part of the parent already: nothing was read" in area.entry(FIRST).plan_reason
    area.publish(area.land(3, rows(3, 1)))
    assert "fingerprints of the parent stored" in area.entry(FIRST).plan_reason


def test_replay_that_requests_a_rewrite_writes(area: SparkJobFeed) -> None:
    arrival = area.land(1, rows(1, 1, 2))
    area.publish(arrival)
    before = area.entry(FIRST).files_digest
    area.replay(arrival)
    assert area.entry(FIRST).files_digest != before
    assert found(area) == [(1, 10, 1), (2, 10, 1)]


def test_every_written_file_has_the_declared_schema(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1, 2)))
    for file in area.files().files:
        with storage.open_input(storage.join(area.data_uri(), file.path)) as stream:
            assert pq.read_schema(stream) == arrow_schema(PRODUCTS.columns)
