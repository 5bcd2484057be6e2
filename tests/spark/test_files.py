"""Which files a publish writes, copies, adopts and leaves out. None of this needs Spark."""

from __future__ import annotations

import io
import random
import struct
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.manifest import DataFile, Difference
from dedup_clone.contract.table import Column, UpdateIdMode
from dedup_spark import data_files, dispatch, storage
from dedup_spark.plans.difference import diff_result
from dedup_spark.sketch import stored
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.product_rows import FIRST, SCHEMA, SECOND, files_of, found, path, row, rows

NARROW = SCHEMA.set(SCHEMA.get_field_index("attr_value"), pa.field("attr_value", pa.int32()))


def table(rows: list[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=schema)


def one_row_files(snapshot_id: int, day: Any, products: range) -> dict[str, pa.Table | bytes]:
    return {f"date={day}/{n}.parquet": table(rows(snapshot_id, n, day=day)) for n in products}


def survivors_of(area: SparkJobFeed) -> list[DataFile]:
    newest = area.entry(FIRST).max_update_id
    return [file for file in files_of(area, FIRST) if file.max_update_id < newest]


def assert_nothing_else_is_left(area: SparkJobFeed) -> None:
    listed = {name for name in storage.list_objects(area.data_uri()) if name.endswith(".parquet")}
    assert listed == {file.path for file in area.files().files}


def float_bits(values: list[Any]) -> list[bytes | None]:
    return [None if value is None else struct.pack("<d", value) for value in values]


def test_decoded_survivors_have_every_bit_that_was_delivered_and_equal_values_are_no_change(tmp_path: Path) -> None:
    columns = tuple(Column("attr_value", "FLOAT64") if c.name == "attr_value" else c for c in PRODUCTS.columns)
    with_floats = replace(PRODUCTS, columns=columns)
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), with_floats)
    odd_nan = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000007))[0]
    values = [-0.0, odd_nan, None, 1e300, 0.0, odd_nan]
    area.publish(area.land(1, [row(1, n, value) for n, value in enumerate(values)]))
    # The values of the last two products change to equal ones, which are written otherwise.
    area.publish(area.land(2, [row(2, 4, -0.0), row(2, 5, float("nan"))]))
    assert "decoded" in area.entry(FIRST).plan_reason
    assert (area.entry(FIRST).changed, area.entry(FIRST).survivors) == (0, 4)
    (survivors,) = survivors_of(area)
    written = pq.read_table(path(area, survivors), partitioning=None)
    assert written["product_id"].to_pylist() == [0, 1, 2, 3]
    assert float_bits(written["attr_value"].to_pylist()) == float_bits(values[:4])


def test_newest_files_become_the_dates_and_only_missing_rows_are_written(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *range(1000))))
    arrival = area.land(2, rows(2, *range(3, 1003)))
    area.publish(arrival)
    landed = Path(area.uri(arrival.objects[0].name))
    adopted, survivors = sorted(files_of(area, FIRST), key=lambda file: -file.rows)
    assert area.entry(FIRST).adopted_delivery == arrival.delivery
    assert path(area, adopted).read_bytes() == landed.read_bytes()
    assert (survivors.rows, survivors.max_update_id) == (3, 1)
    with landed.open("r+b") as stream:  # what is written there later does not reach the generation
        stream.write(b"other")
    assert len(found(area)) == 1003


def test_only_files_that_hold_surplus_rows_are_written_anew(area: SparkJobFeed) -> None:
    """Of two files with the same row one keeps it; a file that has no other row becomes none."""
    files = {
        name: table(rows(1, *products)) for name, products in (("a", (1, 2)), ("b", (3,)), ("c", (1,)), ("d", (2, 4)))
    }
    files["e"] = table([row(1, 2, 99)])
    area.publish(area.deliver(1, {f"date={FIRST}/{name}.parquet": part for name, part in files.items()}))
    assert found(area) == [(1, 10, 1), (2, 99, 1), (3, 10, 1), (4, 10, 1)]
    kinds = sorted((file.path.split("/")[1].split("-")[0], file.rows) for file in area.files().files)
    assert kinds == [("adopted", 1), ("adopted", 1), ("normalized", 1), ("normalized", 1)]


def test_a_file_that_is_not_as_the_job_writes_is_brought_into_that_form_alone(area: SparkJobFeed) -> None:
    other_order = pa.schema(list(reversed(list(SCHEMA))))
    files = {
        f"date={FIRST}/narrow.parquet": table(rows(1, 1), NARROW),
        f"date={FIRST}/order.parquet": table(rows(1, 2), other_order),
        f"date={FIRST}/wide.parquet": table([row(1, 3, 2**40)]),
        f"date={FIRST}/without_rows.parquet": NARROW.empty_table(),
        f"date={SECOND}/without_rows.parquet": SCHEMA.empty_table(),
    }
    area.publish(area.deliver(1, files))
    assert {pq.read_schema(path(area, file)) for file in files_of(area, FIRST)} == {SCHEMA}
    assert sorted(file.path.split("/")[1].split("-")[0] for file in area.files().files) == [
        "adopted",
        *["normalized"] * 2,
    ]
    assert found(area) == [(1, 10, 1), (2, 10, 1), (3, 2**40, 1)]
    assert_nothing_else_is_left(area)
    area.publish(area.land(2, rows(2, 1, 3)))
    assert "sketch of the parent stored" in area.entry(FIRST).plan_reason


def test_survivors_of_a_delivery_of_narrower_types_have_the_declared_ones(area: SparkJobFeed) -> None:
    older = area.deliver(1, {f"date={FIRST}/narrow.parquet": table(rows(1, 1, 2), NARROW)})
    area.publish(older, area.land(2, rows(2, 2)))
    assert found(area) == [(1, 10, 1), (2, 20, 2)]
    assert {pq.read_schema(path(area, file)) for file in files_of(area, FIRST)} == {SCHEMA}


def test_a_date_that_loses_keys_with_every_snapshot_has_at_most_eight_files_of_survivors(area: SparkJobFeed) -> None:
    """Each snapshot lacks fewer keys than the one before, so that files are merged as late as possible."""
    lost = [2 ** (13 - n) for n in range(14)]
    first, count = 0, sum(lost) + 1
    area.publish(area.land(1, rows(1, *range(count))))
    for snapshot_id, lost_count in enumerate(lost, start=2):
        first += lost_count
        area.publish(area.land(snapshot_id, rows(snapshot_id, *range(first, count))))
        assert len(survivors_of(area)) <= 8
        assert sum(file.rows for file in survivors_of(area)) == area.entry(FIRST).survivors == first
    assert len(survivors_of(area)) == 8


def test_a_file_of_survivors_that_loses_no_row_is_copied(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *range(100))))
    area.publish(area.land(2, rows(2, *range(40, 100))))
    (large,) = survivors_of(area)
    for snapshot_id in range(3, 20):
        area.publish(area.land(snapshot_id, rows(snapshot_id, *range(38 + snapshot_id, 100))))
        assert len(survivors_of(area)) <= 5
        assert large in survivors_of(area)


def test_more_files_than_that_become_one_although_no_survivor_came_or_went(area: SparkJobFeed) -> None:
    area.plan, area.file_bytes = Plan.REWRITE, 1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_files, "_GROUP_ROWS", 10)
        patch.setattr(storage, "_BATCH_ROWS", 10)
        patch.setattr(diff_result, "MAX_ADDED_ROWS", 0)
        area.publish(area.land(1, rows(1, *range(300))))
        area.publish(area.land(2, rows(2, 7)))
    assert len(survivors_of(area)) > 8
    area.plan = Plan.AUTO
    area.publish(area.land(3, rows(3, 7)))
    (file,) = survivors_of(area)
    assert (file.rows, area.entry(FIRST).plan, area.entry(FIRST).survivors) == (299, "adopt", 299)


def test_rewrite_makes_one_sorted_file_of_a_small_date(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, *(n * 7919 % 1000 for n in range(1000)))))
    area.publish(area.land(2, rows(2, *(n * 7919 % 1000 for n in range(0, 1000, 3)))))
    assert len(files_of(area, FIRST)) == 2
    area.plan = Plan.REWRITE
    area.publish(area.land(3, rows(3, *range(0, 1000, 2))))
    (file,) = files_of(area, FIRST)
    assert pq.read_table(path(area, file), partitioning=None)["product_id"].to_pylist() == list(range(1000))
    assert (file.rows, file.min_update_id, file.max_update_id) == (1000, 1, 3)
    area.plan = Plan.AUTO  # the next snapshot uses the fingerprints that this one left
    area.publish(area.land(4, rows(4, *range(0, 1000, 2))))
    assert "sketch of the parent stored" in area.entry(FIRST).plan_reason


def test_rewrite_makes_files_of_about_the_requested_size_of_a_large_date(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "_BATCH_ROWS", 1000)
    monkeypatch.setattr(data_files, "_GROUP_ROWS", 1000)
    area.plan, area.file_bytes = Plan.REWRITE, 20_000
    area.publish(area.land(1, [row(1, n, n * 7919 % 100003) for n in range(20_000)]))
    *full, last = files_of(area, FIRST)
    assert len(full) > 2
    assert all(20_000 <= file.size < 40_000 for file in full)
    assert sum(file.rows for file in (*full, last)) == 20_000


def test_files_of_the_parent_that_a_late_snapshot_leaves_are_copied_by_threads(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by the thread of the task, one after the other."""
    area.publish(area.deliver(7, one_row_files(7, FIRST, range(12))))
    threads: dict[str, set[threading.Thread]] = {"copies": set(), "task": set()}

    def noting(name: str, function: Any) -> Any:
        def noted(*arguments: Any, **named: Any) -> Any:
            threads[name].add(threading.current_thread())
            return function(*arguments, **named)

        return noted

    monkeypatch.setattr(storage, "copy", noting("copies", storage.copy))
    monkeypatch.setattr(dispatch, "find_differences", noting("task", dispatch.find_differences))
    area.publish(area.land(3, rows(3, 90)))
    assert (len(files_of(area, FIRST)), area.entry(FIRST).plan) == (13, "rewrite")
    assert threads["copies"]
    assert not threads["copies"] & threads["task"]


@pytest.mark.parametrize("rows_before", [0, 3])
def test_a_date_whose_files_have_no_row_is_not_written_in_mode_last_changed(
    area: SparkJobFeed, rows_before: int
) -> None:
    area.mode = UpdateIdMode.LAST_CHANGED
    if rows_before:
        area.publish(area.land(1, rows(1, 1) + rows(1, 1, 2, 3, day=SECOND)))
    files = {f"date={FIRST}/a.parquet": table(rows(2, 1)), f"date={SECOND}/a.parquet": SCHEMA.empty_table()}
    area.publish(area.deliver(2, files))
    assert area.manifest
    plans = {entry.date: (entry.plan, entry.rows) for entry in area.manifest.dates}
    assert plans.get(SECOND) == (("copied forward", rows_before) if rows_before else None)
    expected = {file.path for file in area.files().files} | {stored.path_of(day) for day in plans}
    assert set(storage.list_objects(area.data_uri())) == expected


def test_a_carried_date_is_copied_with_its_fingerprints_into_the_new_folder(area: SparkJobFeed) -> None:
    first = area.land(1, rows(1, 1, 2) + rows(1, 1, day=SECOND))
    area.publish(first)
    before, folder = area.entry(SECOND), area.data_uri()
    area.publish(area.land(2, rows(2, 1, 2)))
    assert (area.entry(SECOND).plan, area.entry(SECOND).adopted_delivery) == ("copied forward", first.delivery)
    assert area.entry(SECOND).files_digest == before.files_digest
    assert area.data_uri() != folder
    assert_nothing_else_is_left(area)
    area.publish(area.land(3, rows(3, 1, 2) + rows(3, 2, day=SECOND)))
    assert "sketch of the parent stored" in area.entry(SECOND).plan_reason


@pytest.mark.parametrize("plan", [Plan.ADOPT, Plan.REWRITE])
def test_a_candidate_has_examples_of_keys_of_each_difference(area: SparkJobFeed, plan: Plan) -> None:
    area.plan = plan
    area.publish(area.land(1, rows(1, *range(20)) + rows(1, 1, day=SECOND)))
    candidate = area.publish(area.land(2, rows(2, *range(5, 25)) + rows(2, 2, day=SECOND)))
    products: dict[Any, list[int]] = {}
    for example in candidate.examples:
        product, store, attribute = example.key.split(", ")
        assert (store, attribute) == ("store_id=2072", "attribute_id=1")
        products.setdefault((example.date, example.difference), []).append(int(product.removeprefix("product_id=")))
    for difference, among in (
        (Difference.NEW, range(20, 25)),
        (Difference.SURVIVOR, range(5)),
        (Difference.CHANGED, range(5, 20)),
    ):
        assert len(set(products[FIRST, difference])) == 3
        assert set(products[FIRST, difference]) <= set(among)
    assert (products[SECOND, Difference.NEW], products[SECOND, Difference.SURVIVOR]) == ([2], [1])


def test_a_key_that_several_deliveries_add_is_one_example(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1)))
    candidate = area.publish(area.land(2, rows(2, 1, 7)), area.land(3, [row(3, 1, 20), row(3, 7, 20)]))
    new = [example.key for example in candidate.examples if example.difference is Difference.NEW]
    assert new == ["product_id=7, store_id=2072, attribute_id=1"]


def test_nothing_stays_of_what_was_found_with_a_delivery_that_is_refused(area: SparkJobFeed) -> None:
    """The bad delivery is the newest of the first date and wrong in the second: its survivors must not stay."""
    area.publish(area.land(1, rows(1, 1, 2, 3) + rows(1, 1, day=SECOND)))
    before = set(storage.list_objects(storage.join(area.state, "data")))
    wrong = {**row(3, 1, 1, SECOND), "product_id": None}
    bad = area.land(3, [*rows(3, 9), wrong])
    assert area.publish(bad).manifest is None
    assert set(storage.list_objects(storage.join(area.state, "data"))) == before
    candidate = area.publish(area.land(2, rows(2, 1, 2) + rows(2, 1, day=SECOND)), bad)
    assert [refused.delivery for refused in candidate.refused] == [bad.delivery]
    assert found(area) == [(1, 20, 2), (1, 20, 2), (2, 20, 2), (3, 10, 1)]
    assert_nothing_else_is_left(area)


def land_in_order(area: SparkJobFeed, snapshot_id: int, *, is_sorted: bool, day: Any = FIRST) -> Any:
    """Two files of 40 rows in row groups of 10, in the order of product_id or in none."""
    products, files = list(range(80)), {}
    if not is_sorted:
        random.Random(1).shuffle(products)
    for number, part in enumerate((products[:40], products[40:])):
        content = io.BytesIO()
        pq.write_table(table(rows(snapshot_id, *part, day=day)), content, row_group_size=10, store_schema=False)
        files[f"date={day}/{number}.parquet"] = content.getvalue()
    return area.deliver(snapshot_id, files)


def test_the_share_of_overlapping_row_groups_follows_the_order_of_the_rows(area: SparkJobFeed) -> None:
    area.publish(land_in_order(area, 5, is_sorted=False))
    area.publish(land_in_order(area, 6, is_sorted=True, day=SECOND))
    assert area.manifest
    assert [entry.cluster_overlap for entry in area.manifest.dates] == [1.0, 0.0]
    assert area.manifest.cluster_overlap == 0.5
    area.plan = Plan.REWRITE
    area.publish(land_in_order(area, 7, is_sorted=False))
    assert area.entry(FIRST).cluster_overlap == 0.0


def test_a_table_without_clustering_has_no_such_share(area: SparkJobFeed) -> None:
    area.table = replace(PRODUCTS, cluster_by=())
    area.publish(land_in_order(area, 5, is_sorted=False))
    assert area.manifest
    assert (area.entry(FIRST).cluster_overlap, area.manifest.cluster_overlap) == (None, None)
