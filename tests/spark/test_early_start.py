"""Spark starts before anything is examined, where request and inventories say enough; and only what is needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from dedup_clone.contract.request import DedupRequest, ParentGeneration, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.early_start import starting_for
from dedup_spark.execution import fan_out
from dedup_spark.job_request import read_arrivals
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.test_dedup import row

pytestmark = pytest.mark.spark

PARENT = ParentGeneration(1, "manifest", "files", "digest", "data")


@dataclass
class AskedSpark:
    running: SparkSession
    asked: list[str] = field(default_factory=list)

    def context(self) -> SparkContext:
        self.asked.append("context")
        return self.running.sparkContext

    def session(self) -> SparkSession:
        self.asked.append("session")
        return self.running


@pytest.fixture
def request_of_few_rows(tmp_path: Path) -> DedupRequest:
    area = SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)
    arrival = area.land(1, [row(1, 1, 1)])
    return area.request([arrival])


def asked(spark: SparkSession, request: DedupRequest) -> list[str]:
    starting = AskedSpark(spark)
    with starting_for(starting, request, read_arrivals(request)):
        pass
    return starting.asked


def test_nothing_starts_for_what_the_driver_may_do_alone(
    spark: SparkSession, request_of_few_rows: DedupRequest
) -> None:
    assert asked(spark, request_of_few_rows) == []


@pytest.mark.parametrize("plan", [Plan.WINDOW, Plan.ANTIJOIN])
def test_a_session_starts_for_a_plan_of_dataframes(
    spark: SparkSession, request_of_few_rows: DedupRequest, plan: Plan
) -> None:
    assert asked(spark, replace(request_of_few_rows, plan=plan)) == ["session"]


def test_a_session_starts_where_every_row_is_compared_for_its_last_change(
    spark: SparkSession, request_of_few_rows: DedupRequest
) -> None:
    exact = replace(request_of_few_rows, exact=True, update_id_mode=UpdateIdMode.LAST_CHANGED)
    assert asked(spark, exact) == ["session"]


def test_the_context_alone_starts_for_many_files(
    spark: SparkSession, request_of_few_rows: DedupRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "_DRIVER_ITEMS", 0)
    assert asked(spark, request_of_few_rows) == ["context"]


def test_a_parent_counts_for_as_many_bytes_as_the_delivery(
    spark: SparkSession, request_of_few_rows: DedupRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    landed = sum(path.stat().st_size for path in (tmp_path / "landing").rglob("*.parquet"))
    monkeypatch.setattr(fan_out, "_DRIVER_BYTES", landed)
    assert asked(spark, replace(request_of_few_rows, parent=None)) == []
    assert asked(spark, replace(request_of_few_rows, parent=PARENT)) == ["context"]


def test_a_failed_start_is_left_to_whoever_needs_it(
    spark: SparkSession, request_of_few_rows: DedupRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(AskedSpark):
        def context(self) -> SparkContext:
            raise RuntimeError("no port is free")

    monkeypatch.setattr(fan_out, "_DRIVER_ITEMS", 0)
    starting = Broken(spark)
    arrivals = read_arrivals(request_of_few_rows)
    with starting_for(starting, request_of_few_rows, arrivals), pytest.raises(RuntimeError, match="no port"):
        starting.context()
