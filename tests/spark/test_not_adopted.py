"""Files that plan adopt writes anew, leaves to another plan, or refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.errors import ContractViolation, DeliveryRefused
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.plans.adopt import adopt_date
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.product_rows import FIRST, SCHEMA, SECOND, files_of, found, path, rows

pytestmark = pytest.mark.spark


def test_late_snapshot_falls_back_and_leaves_the_fingerprints_as_they_are(with_spark: SparkJobFeed) -> None:
    area = with_spark
    area.plan = Plan.ADOPT
    area.publish(area.land(7, rows(7, 1, 2)))
    area.publish(area.land(3, rows(3, 1, 9)))
    entry = area.entry(FIRST)
    assert entry.plan == "rewrite"
    assert entry.plan_reason.startswith("not adopted: snapshot id [3] is below [7], the date's highest")
    area.publish(area.land(8, rows(8, 1, 2, 3)))
    assert "fingerprints of the parent stored" in area.entry(FIRST).plan_reason
    assert found(area) == [(1, 80, 8), (2, 80, 8), (3, 80, 8), (9, 30, 3)]


def test_all_keys_of_a_late_snapshot_are_compared_if_asked_for(area: SparkJobFeed) -> None:
    area.exact = True
    area.publish(area.land(7, rows(7, 1, 2)))
    area.publish(area.land(3, rows(3, 1, 9)))
    assert area.entry(FIRST).plan_reason.endswith("; all keys compared")
    assert found(area) == [(1, 70, 7), (2, 70, 7), (9, 30, 3)]


def test_file_of_several_dates_is_not_adopted(with_spark: SparkJobFeed) -> None:
    area = with_spark
    area.date_folders = False
    area.put(1, "two.parquet", pa.Table.from_pylist(rows(1, 1) + rows(1, 1, day=SECOND), schema=SCHEMA))
    area.publish(area.arrive(1))
    assert "two.parquet] holds [2] dates" in area.entry(FIRST).plan_reason
    area.put(2, "one.parquet", pa.Table.from_pylist(rows(2, 1), schema=SCHEMA))
    area.publish(area.arrive(2))
    assert (area.entry(FIRST).plan, area.entry(SECOND).plan) == ("adopt", "carried")


def test_file_that_is_not_as_the_job_writes_is_brought_into_that_form_alone(area: SparkJobFeed) -> None:
    narrow = SCHEMA.set(SCHEMA.get_field_index("attr_value"), pa.field("attr_value", pa.int32()))
    other_order = pa.schema(list(reversed(list(SCHEMA))))
    area.put(1, f"date={FIRST}/narrow.parquet", pa.Table.from_pylist(rows(1, 1), schema=narrow))
    area.put(1, f"date={FIRST}/order.parquet", pa.Table.from_pylist(rows(1, 2), schema=other_order))
    area.put(1, f"date={FIRST}/wide.parquet", pa.Table.from_pylist(rows(1, 3), schema=SCHEMA))
    area.put(1, f"date={FIRST}/without_rows.parquet", narrow.empty_table())
    area.put(1, f"date={SECOND}/wide.parquet", pa.Table.from_pylist(rows(1, 1, day=SECOND), schema=SCHEMA))
    area.publish(area.arrive(1))
    assert (area.entry(FIRST).plan, area.entry(SECOND).plan) == ("adopt", "adopt")
    assert area.entry(FIRST).plan_reason.endswith("[2] files brought into the written form; [2] files written anew")
    assert "written" not in area.entry(SECOND).plan_reason
    names = sorted(file.path.split("/")[1].split("-")[0] for file in files_of(area, FIRST))
    assert names == ["adopted", "normalized", "normalized"]
    assert {pq.read_schema(path(area, file)) for file in files_of(area, FIRST)} == {SCHEMA}
    area.publish(area.land(2, rows(2, 1, 2, 3)))
    assert "fingerprints of the parent stored" in area.entry(FIRST).plan_reason
    assert [r[2] for r in found(area)] == [1, 2, 2, 2]  # the first is the second date's


def test_older_delivery_of_narrower_types_gives_survivors_of_the_declared_ones(area: SparkJobFeed) -> None:
    narrow = SCHEMA.set(SCHEMA.get_field_index("product_id"), pa.field("product_id", pa.int32()))
    area.put(1, f"date={FIRST}/narrow.parquet", pa.Table.from_pylist(rows(1, 1, 2), schema=narrow))
    area.publish(area.arrive(1), area.land(2, rows(2, 2)))
    assert found(area) == [(1, 10, 1), (2, 20, 2)]
    assert area.entry(FIRST).plan == "adopt"
    assert {pq.read_schema(path(area, file)) for file in files_of(area, FIRST)} == {SCHEMA}


def test_last_changed_is_not_adopted(with_spark: SparkJobFeed) -> None:
    with_spark.mode = UpdateIdMode.LAST_CHANGED
    with_spark.publish(with_spark.land(1, rows(1, 1)))
    assert "update_id mode [last_changed] compares values" in with_spark.entry(FIRST).plan_reason


def test_state_that_lost_rows_is_noticed_where_it_is_compared(area: SparkJobFeed) -> None:
    area.publish(area.land(1, rows(1, 1, 2, 3)))
    (file,) = files_of(area, FIRST)
    pq.write_table(pa.Table.from_pylist(rows(1, 1, 2), schema=SCHEMA), path(area, file))
    with pytest.raises(ContractViolation, match=r"has \[2\] keys of the parent after the dedup, expected \[3\]"):
        area.publish(area.land(2, rows(2, 1, 4)))


def test_landed_object_that_changed_since_the_inventory_is_not_adopted(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = area.land(1, rows(1, 1))
    target = Path(area.uri(arrival.objects[0].name))
    compare = adopt_date.find_differences

    def change_afterwards(*arguments: Any, **named: Any) -> Any:
        compared = compare(*arguments, **named)
        target.write_bytes(target.read_bytes() + b"")
        return compared

    monkeypatch.setattr(adopt_date, "find_differences", change_afterwards)
    with pytest.raises(DeliveryRefused, match=r"it was replaced or deleted, expected generation"):
        area.publish(arrival)


@pytest.mark.parametrize("crc32c", ["AAAAAA==", "yZRlqg=="])
def test_copy_with_another_size_or_checksum_is_refused(tmp_path: Path, crc32c: str) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"hello world")  # its crc32c is yZRlqg==
    size, generation = (11 if crc32c == "AAAAAA==" else 12), source.stat().st_mtime_ns
    with pytest.raises(DeliveryRefused, match=r"its copy has size and checksum \[11, 'yZRlqg=='\]"):
        storage.copy_frozen(str(source), str(tmp_path / "copy"), storage.FrozenObject(generation, size, crc32c))
    storage.copy_frozen(str(source), str(tmp_path / "copy"), storage.FrozenObject(generation, 11, "yZRlqg=="))
    assert (tmp_path / "copy").read_bytes() == b"hello world"
