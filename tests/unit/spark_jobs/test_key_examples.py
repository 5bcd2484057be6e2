"""Examples of keys: the values that a reader finds in the table, each key once."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.contract.manifest import DateOutcome, Difference
from dedup_clone.contract.table import Column, TableContract
from dedup_spark.comparison.key_examples import key_texts
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

NUMBERED = TableContract(
    columns=(Column("date", "DATE"), Column("number", "NUMERIC"), Column("update_id", "INT64")),
    partition_column="date",
    snapshot_id_column="update_id",
    keys=("date", "number"),
    cluster_by=(),
    retention_days=730,
)


@pytest.mark.parametrize(
    ("stored", "text"),
    [
        ("12345678901234567890123456789.123456789", "12345678901234567890123456789.123456789"),
        ("-99999999999999999999999999999.999999999", "-99999999999999999999999999999.999999999"),
        ("1200.500000000", "1200.5"),
        ("100.000000000", "100"),
        ("0.000000000", "0"),
    ],
)
def test_number_is_shown_with_all_of_its_digits_and_no_other(stored: str, text: str) -> None:
    assert key_texts(NUMBERED, [[Decimal(stored)]]) == [f"number={text}"]


def test_key_that_several_deliveries_add_is_one_example(tmp_path: Path) -> None:
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)
    area.publish(area.land(1, products(1, 1)))
    candidate = area.publish(area.land(2, products(2, 1, 7, 8)), area.land(3, products(3, 1, 7, 8)))
    assert candidate.manifest
    assert [(entry.plan, entry.new_keys) for entry in candidate.manifest.dates] == [(DateOutcome.ADOPT, 2)]
    assert [(example.difference, example.key) for example in candidate.examples] == [
        (Difference.NEW, f"product_id={number}, store_id=1, attribute_id=1") for number in (7, 8)
    ]


def products(snapshot_id: int, *product_ids: int) -> list[dict[str, Any]]:
    values = {"date": date(2026, 3, 1), "store_id": 1, "attribute_id": 1, "attr_value": 20, "update_id": snapshot_id}
    return [{"product_id": product_id, **values} for product_id in product_ids]
