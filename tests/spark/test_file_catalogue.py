"""Files of good producers are read as DuckDB reads them: by every plan, landed or adopted, in one delivery."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from dedup_clone.contract.attempt import Plan
from testkit.spark_job_feed import SparkJobFeed
from tests.shared.typed_deliveries import parquet
from tests.spark.file_catalogue import SCHEMA, TABLE, expected, write_catalogue

pytestmark = pytest.mark.spark

Catalogue = dict[str, tuple[date, bytes]]


@pytest.fixture(scope="module")
def catalogue(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return write_catalogue(spark, tmp_path_factory.mktemp("catalogue"))


@pytest.fixture
def area(spark: SparkSession, tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(spark, str(tmp_path / "landing"), str(tmp_path / "state"), TABLE)


def assert_has_rows_of(catalogue: Catalogue, rows: list[dict[str, Any]]) -> None:
    found: dict[date, list[dict[str, Any]]] = {day: [] for day, _ in catalogue.values()}
    for row in sorted(rows, key=lambda row: row["id"]):
        found[row["day"]].append({**row, "marks": row["marks"] or None, "tags": row["tags"] or None})
    assert [name for name, (day, _) in catalogue.items() if found[day] != expected(day)] == []


def test_duckdb_reads_every_file_as_it_was_meant(catalogue: Catalogue, tmp_path: Path) -> None:
    rows = []
    for day, content in catalogue.values():
        path = tmp_path / f"{day}.parquet"
        path.write_bytes(content)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            relation = connection.sql(f"SELECT * FROM read_parquet('{path}', hive_partitioning = false)")
            rows += relation.to_arrow_table().select(SCHEMA.names).cast(SCHEMA).to_pylist()
    assert_has_rows_of(catalogue, rows)


@pytest.mark.parametrize("plan", [Plan.AUTO, Plan.REWRITE, Plan.WINDOW])
def test_every_plan_reads_every_landed_file(area: SparkJobFeed, catalogue: Catalogue, plan: Plan) -> None:
    area.plan = plan
    files = {f"day={day}/a.parquet": content for day, content in catalogue.values()}
    assert area.publish(area.deliver(1, files)).refused == ()
    assert_has_rows_of(catalogue, area.rows())
    if plan is Plan.AUTO:  # some files were adopted as they are: now they are the parent's
        area.plan = Plan.WINDOW
        other_day = date(2025, 1, 1)
        rows = [{**row, "version": 2} for row in expected(other_day)]
        area.publish(area.deliver(2, {f"day={other_day}/a.parquet": parquet(pa.Table.from_pylist(rows, SCHEMA))}))
        assert_has_rows_of(catalogue, [row for row in area.rows() if row["day"] != other_day])
