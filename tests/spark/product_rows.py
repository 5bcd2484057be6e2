"""Rows of small tables of products, and what a feed then has in its state."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from dedup_clone.contract.manifest import DataFile
from dedup_spark import storage
from dedup_spark.column_types import arrow_schema
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

FIRST, SECOND = date(2026, 3, 1), date(2026, 3, 2)
SCHEMA = arrow_schema(PRODUCTS.columns)


def row(snapshot_id: int, product: int, value: int | None, day: date = FIRST) -> dict[str, Any]:
    return {
        "date": day,
        "product_id": product,
        "store_id": 2072,
        "attribute_id": 1,
        "attr_value": value,
        "update_id": snapshot_id,
    }


def rows(snapshot_id: int, *products: int, day: date = FIRST) -> list[dict[str, Any]]:
    return [row(snapshot_id, product, 10 * snapshot_id, day) for product in products]


def found(area: SparkJobFeed) -> list[tuple[int, int | None, int]]:
    """(product, value, update_id) of all rows, in order."""
    return sorted((r["product_id"], r["attr_value"], r["update_id"]) for r in area.rows())


def files_of(area: SparkJobFeed, day: date) -> list[DataFile]:
    return [file for file in area.files().files if file.date == day]


def path(area: SparkJobFeed, file: DataFile) -> Path:
    return Path(storage.join(area.data_uri(), file.path))
