"""Single decisions of the dedup, each in the smallest history that shows it, with every plan."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import ContractViolation, DeliveryRefused
from dedup_clone.contract.manifest import Candidate
from dedup_clone.contract.request import Plan
from dedup_spark import job, storage
from dedup_spark.column_types import arrow_schema
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SECOND, found, row

pytestmark = pytest.mark.spark

# For what is decided before a plan begins.
AUTO_QUICKLY = [
    Plan.AUTO,
    *(pytest.param(plan, marks=pytest.mark.exhaustive) for plan in (Plan.WINDOW, Plan.ANTIJOIN, Plan.REWRITE)),
]


@pytest.fixture(
    params=[Plan.WINDOW, pytest.param(Plan.ANTIJOIN, marks=pytest.mark.exhaustive), Plan.REWRITE, Plan.AUTO]
)
def area(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, plan=request.param)


@pytest.fixture
def auto(spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)


def test_corrected_redelivery_wins_where_it_corrects_downward(area: SparkJobFeed) -> None:
    area.publish(area.land(5, [row(5, 1, 90), row(5, 2, 90)]))
    area.publish(area.land(5, [row(5, 1, 10)]))
    assert found(area) == [(1, 10, 5), (2, 90, 5)]


@pytest.mark.parametrize("area", [Plan.WINDOW, Plan.ANTIJOIN, Plan.REWRITE, Plan.AUTO], indirect=True)
def test_late_snapshot_only_fills_what_newer_ones_did_not_say(area: SparkJobFeed) -> None:
    area.publish(area.land(7, [row(7, 1, 70), row(7, 2, 70)]))
    area.publish(area.land(3, [row(3, 1, 30), row(3, 3, 30)]))
    assert found(area) == [(1, 70, 7), (2, 70, 7), (3, 30, 3)]
    entry = area.entry(FIRST)
    assert (entry.new_keys, entry.changed, entry.survivors) == (1, 0, 1)


@pytest.mark.parametrize("area", [Plan.WINDOW, Plan.ANTIJOIN, Plan.REWRITE, Plan.AUTO], indirect=True)
def test_backlog_of_one_publish_equals_one_publish_each(area: SparkJobFeed) -> None:
    """Survivors come from the older deliveries of the backlog, and the newest wins."""
    first = area.land(1, [row(1, 1, 10), row(1, 2, 10)])
    second = area.land(2, [row(2, 2, 20), row(2, 3, 20)])
    third = area.land(3, [row(3, 3, 30)])
    candidate = area.publish(first, second, third)
    assert found(area) == [(1, 10, 1), (2, 20, 2), (3, 30, 3)]
    assert area.entry(FIRST).survivors == 2
    assert [metrics.rows for metrics in candidate.deliveries] == [2, 2, 1]
    assert candidate.manifest
    assert candidate.manifest.applied == candidate.manifest.deliveries


def test_greatest_values_win_inside_a_delivery_and_ties_are_counted_for_it(area: SparkJobFeed) -> None:
    """The second delivery is tied; the first one is not, and neither is the parent."""
    area.publish(area.land(1, [row(1, 1, 10)]))
    tied = [row(3, 1, None), row(3, 1, 5), row(3, 1, 7), row(3, 2, 1), row(3, 2, 1)]
    candidate = area.publish(area.land(2, [row(2, 1, 99)]), area.land(3, tied))
    assert found(area) == [(1, 7, 3), (2, 1, 3)]
    assert [metrics.ties for metrics in candidate.deliveries] == [0, 3]
    assert area.entry(FIRST).ties == 3


def test_rows_older_than_the_retention_are_dropped_and_counted(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, 1, 1), row(1, 2, 1), row(1, 1, 1, SECOND)]))
    candidate = area.publish(area.land(2, [row(2, 9, 2), row(2, 1, 2, SECOND)]), retention_day=SECOND)
    assert found(area) == [(1, 2, 2)]
    assert [metrics.dropped_rows for metrics in candidate.deliveries] == [1]
    assert candidate.manifest
    assert candidate.manifest.dropped_rows == 3
    assert [entry.date for entry in candidate.manifest.dates] == [SECOND]


@pytest.mark.parametrize("area", AUTO_QUICKLY, indirect=True)
def test_delivery_without_any_row_is_refused(area: SparkJobFeed) -> None:
    """An empty snapshot would say of every key that it is missing."""
    area.publish(area.land(1, [row(1, 1, 1)]))
    empty = arrow_schema(PRODUCTS.columns).empty_table()
    area.put(2, f"date={SECOND}/part-0.parquet", empty)
    candidate = area.publish(area.arrive(2))
    assert found(area) == [(1, 1, 1)]
    assert "holds no row in [1] data files" in candidate.refused[0].reason


@pytest.mark.parametrize("area", AUTO_QUICKLY, indirect=True)
def test_refused_delivery_holds_no_other_back(area: SparkJobFeed) -> None:
    good, bad = area.land(1, [row(1, 1, 10)]), area.land(2, [row(9, 1, 20)])
    candidate = area.publish(good, bad, area.land(3, [row(3, 2, 30)]))
    assert found(area) == [(1, 10, 1), (2, 30, 3)]
    assert [refused.delivery for refused in candidate.refused] == [bad.delivery]
    assert candidate.manifest
    assert bad.delivery not in candidate.manifest.deliveries


def test_narrower_types_of_one_file_are_widened_to_the_declared_ones(area: SparkJobFeed) -> None:
    narrow = arrow_schema(PRODUCTS.columns)
    for name in ("product_id", "attr_value"):
        narrow = narrow.set(narrow.get_field_index(name), pa.field(name, pa.int32()))
    wide = arrow_schema(PRODUCTS.columns)
    area.put(1, f"date={FIRST}/narrow.parquet", pa.Table.from_pylist([row(1, 1, -5)], schema=narrow))
    area.put(1, f"date={FIRST}/wide.parquet", pa.Table.from_pylist([row(1, 2, 2**40)], schema=wide))
    area.publish(area.arrive(1))
    area.publish(area.arrive(1))
    assert found(area) == [(1, -5, 1), (2, 2**40, 1)]


def test_untouched_date_is_copied_into_the_new_data_folder(auto: SparkJobFeed) -> None:
    auto.publish(auto.land(1, [row(1, 1, 1), row(1, 1, 1, SECOND)]))
    before = auto.entry(SECOND)
    candidate = auto.publish(auto.land(2, [row(2, 1, 2)]))
    entry = auto.entry(SECOND)
    assert (entry.plan, entry.plan_reason) == ("carried", "no applied delivery has this date")
    assert entry.files_digest == before.files_digest
    assert candidate.manifest
    for file in auto.files().files:
        assert storage.exists(storage.join(candidate.manifest.data_folder, file.path))


@pytest.mark.parametrize(
    "area", [Plan.WINDOW, pytest.param(Plan.ANTIJOIN, marks=pytest.mark.exhaustive)], indirect=True
)
def test_files_are_sorted_by_the_clustering_columns(area: SparkJobFeed) -> None:
    area.publish(area.land(1, [row(1, n * 7919 % 100, 1) for n in range(100)]))
    area.publish(area.land(2, [row(2, n * 7919 % 100, 2) for n in range(0, 100, 3)]))
    (file,) = area.files().files
    assert area.manifest
    with storage.open_input(storage.join(area.manifest.data_folder, file.path)) as stream:
        products = pq.read_table(stream)["product_id"].to_pylist()
    assert products == sorted(products)


@pytest.mark.parametrize(
    "area", [pytest.param(Plan.WINDOW, marks=pytest.mark.exhaustive), Plan.ANTIJOIN], indirect=True
)
def test_large_date_is_written_as_several_files_without_losing_or_doubling_keys(area: SparkJobFeed) -> None:
    area.file_bytes = 1000
    area.publish(area.land(1, [row(1, n, 1) for n in range(300)] + [row(1, 1, 1, SECOND)]))
    area.publish(area.land(2, [row(2, n, 2) for n in range(100, 400)] + [row(2, 1, 2, SECOND)]))
    assert sum(file.date == FIRST for file in area.files().files) > 1
    expected = [(n, 1, 1) for n in range(100)] + [(n, 2, 2) for n in range(100, 400)]
    assert found(area) == sorted([*expected, (1, 2, 2)])
    entry = area.entry(FIRST)
    assert (entry.rows, entry.new_keys, entry.changed, entry.survivors) == (400, 100, 200, 100)


def _with_broken_pages(rows: Sequence[dict[str, Any]]) -> bytes:
    """Valid footer, keys and ids; the pages of attr_value are overwritten."""
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows), schema=arrow_schema(PRODUCTS.columns)), stream)
    content = bytearray(stream.getvalue())
    column = pq.ParquetFile(io.BytesIO(bytes(content))).metadata.row_group(0).column(4)
    start = column.dictionary_page_offset or column.data_page_offset
    content[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    return bytes(content)


def test_file_that_only_breaks_while_spark_reads_it_refuses_its_delivery_alone(auto: SparkJobFeed) -> None:
    good = auto.land(1, [row(1, 1, 10)])
    auto.put(2, f"date={FIRST}/part-0.parquet", _with_broken_pages([row(2, n, n) for n in range(50)]))
    bad = auto.arrive(2)
    candidate = auto.publish(good, bad)
    assert found(auto) == [(1, 10, 1)]
    (refused,) = candidate.refused
    assert refused.delivery == bad.delivery
    assert "cannot be read as Parquet" in refused.reason


def test_landing_that_changes_under_the_job_fails_it_without_a_candidate(
    auto: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = auto.land(1, [row(1, 1, 10)])

    def copy_while_the_producer_writes(*arguments: object) -> None:
        Path(auto.uri(arrival.objects[0].name)).write_bytes(b"other")

    monkeypatch.setattr(job, "copy_forward", copy_while_the_producer_writes)
    request = auto.request([arrival])
    with pytest.raises(DeliveryRefused, match=r"part-1\.parquet\] was replaced"):
        auto.run(request)
    assert not storage.exists(storage.join(request.attempt_uri, "candidate.json"))


def test_state_that_lost_rows_is_noticed(auto: SparkJobFeed) -> None:
    auto.publish(auto.land(1, [row(1, 1, 1), row(1, 2, 1)]))
    (file,) = auto.files().files
    assert auto.manifest
    with storage.open_output(storage.join(auto.manifest.data_folder, file.path)) as stream:
        pq.write_table(pa.Table.from_pylist([row(1, 1, 1)], schema=arrow_schema(PRODUCTS.columns)), stream)
    with pytest.raises(ContractViolation, match=r"has \[1\] keys of the parent after the dedup, expected \[2\]"):
        auto.publish(auto.land(2, [row(2, 1, 1)]))


def test_parent_with_other_columns_is_refused(auto: SparkJobFeed) -> None:
    auto.publish(auto.land(1, [row(1, 1, 1)]))
    auto.table = replace(PRODUCTS, keys=("date", "product_id", "store_id"))
    with pytest.raises(ContractViolation, match=r"another table.*keys is \[date, product_id, store_id\], it was"):
        auto.publish(auto.land(2, [row(2, 1, 1)]))


def test_of_two_runs_of_one_request_the_first_to_finish_counts(
    auto: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphan finishes first while a retry is under way: the retry finds the candidate when it is done."""
    request = auto.request([auto.land(1, [row(1, 1, 1)])])
    orphan: list[Candidate] = []

    def copy_while_an_orphan_finishes(*arguments: object) -> None:
        monkeypatch.undo()
        orphan.append(auto.run(request))

    monkeypatch.setattr(job, "copy_forward", copy_while_an_orphan_finishes)
    assert auto.run(request) == orphan[0]
    names = storage.list_objects(request.attempt_uri)
    assert sum(name.startswith("files-") for name in names) == 2
    assert str(orphan[0].file_list_uri).rsplit("/", 1)[1] in names


def test_runs_of_one_attempt_share_no_file(auto: SparkJobFeed) -> None:
    """Files and fingerprints that are copied keep their names, so each run needs a folder of its own."""
    auto.publish(auto.land(1, [row(1, 1, 1), row(1, 2, 1, SECOND)]))
    request = auto.request([auto.land(2, [row(2, 1, 1)])])
    candidate = auto.run(request)
    assert candidate.manifest
    first = {name for name in storage.list_objects(request.data_uri) if not name.startswith("outcomes/")}
    storage.delete(storage.join(request.attempt_uri, "candidate.json"))
    auto.run(request)
    names = {name for name in storage.list_objects(request.data_uri) if not name.startswith("outcomes/")}
    second = names - first
    assert len(second) == len(first)
    for name in second:
        storage.delete(storage.join(request.data_uri, name))
    auto.commit(candidate)
    assert found(auto) == [(1, 1, 2), (2, 1, 1)]


@pytest.mark.parametrize("area", AUTO_QUICKLY, indirect=True)
def test_arrival_order_in_one_publish_follows_the_snapshot_ids(area: SparkJobFeed) -> None:
    newer: Arrival = area.land(2, [row(2, 1, 20)])
    older: Arrival = area.land(1, [row(1, 1, 10)])
    area.publish(newer, older)
    assert found(area) == [(1, 20, 2)]
