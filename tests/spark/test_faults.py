"""Faults that the job notices: a parent that is not as its manifest says, and landing that changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.errors import ContractViolation, DeliveryRefused
from dedup_spark import dispatch, storage
from testkit.spark_job_feed import SparkJobFeed
from tests.spark.product_rows import FIRST, SCHEMA, files_of, found, path, rows


@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.REWRITE])
@pytest.mark.parametrize("exact", [False, True])
def test_rows_that_a_parent_lost_are_noticed_or_come_from_its_sketch(
    area: SparkJobFeed, plan: Plan, *, exact: bool
) -> None:
    area.publish(area.land(1, rows(1, 1, 2, 3)))
    (file,) = files_of(area, FIRST)
    path(area, file).unlink()
    pq.write_table(pa.Table.from_pylist(rows(1, 1, 2), schema=SCHEMA), path(area, file))
    area.plan, area.exact = plan, exact
    if not exact:
        area.publish(area.land(2, rows(2, 1, 4)))
        assert found(area) == [(1, 20, 2), (2, 10, 1), (3, 10, 1), (4, 20, 2)]
        return
    with pytest.raises(ContractViolation, match=r"expected \[3\]|its data files were changed"):
        area.publish(area.land(2, rows(2, 1, 4)))


def test_a_landed_object_that_changed_after_it_was_compared_is_not_adopted(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrival = area.land(1, rows(1, 1))
    target = Path(area.uri(arrival.objects[0].name))
    compare = dispatch.find_differences

    def change_afterwards(*arguments: Any, **named: Any) -> Any:
        compared = compare(*arguments, **named)
        target.write_bytes(target.read_bytes())
        return compared

    monkeypatch.setattr(dispatch, "find_differences", change_afterwards)
    with pytest.raises(DeliveryRefused, match=r"it was replaced or deleted, expected generation"):
        area.publish(arrival)


def test_a_copy_with_another_size_is_refused(tmp_path: Path) -> None:
    source, copy = tmp_path / "source", str(tmp_path / "copy")
    source.write_bytes(b"hello world")
    generation = source.stat().st_mtime_ns
    with pytest.raises(DeliveryRefused, match=r"its copy has size and checksum \[11, ''\]"):
        storage.copy_frozen(str(source), copy, generation, 12, "")
    storage.copy_frozen(str(source), copy, generation, 11, "")
    assert Path(copy).read_bytes() == b"hello world"


def test_a_comparison_that_fails_during_the_scan_is_repeated(
    area: SparkJobFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, failures = dispatch.write_date, [OSError("the storage hangs up")]

    def failing(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return write(*arguments)

    monkeypatch.setattr(dispatch, "write_date", failing)
    area.publish(area.land(1, rows(1, 1, 2)))
    assert area.entry(FIRST).plan == "adopt"
    assert found(area) == [(1, 10, 1), (2, 10, 1)]
