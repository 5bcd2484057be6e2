"""Files without rows, in mode last_changed: their date is left as it is, and nothing is written for it."""

from __future__ import annotations

import logging
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from dedup_spark.fingerprints import stored
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

DAY, EMPTY = date(2026, 3, 1), date(2026, 3, 2)
SCHEMA = arrow_schema(PRODUCTS.columns)


def deliver(area: SparkJobFeed, snapshot_id: int, rows_by_date: dict[date, int]) -> None:
    for day, count in rows_by_date.items():
        rows: list[dict[str, Any]] = [
            {"date": day, "product_id": n, "store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": snapshot_id}
            for n in range(count)
        ]
        area.put(snapshot_id, f"date={day}/part-0.parquet", pa.Table.from_pylist(rows, schema=SCHEMA))
    area.publish(area.arrive(snapshot_id))


@pytest.mark.parametrize("rows_before", [0, 3])
def test_date_whose_files_have_no_row_is_not_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rows_before: int
) -> None:
    area = SparkJobFeed(
        None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS, mode=UpdateIdMode.LAST_CHANGED
    )
    if rows_before:
        deliver(area, 1, {DAY: 2, EMPTY: rows_before})
    with caplog.at_level(logging.INFO):
        deliver(area, 2, {DAY: 2, EMPTY: 0})
    assert "is left to its plan" not in caplog.text
    assert area.manifest
    found = {entry.date: (entry.plan, entry.rows) for entry in area.manifest.dates}
    assert found.get(EMPTY) == (("carried", rows_before) if rows_before else None)
    expected = {file.path for file in area.files().files} | {stored.path_of(day) for day in found}
    assert set(storage.list_objects(area.data_uri())) == expected
