"""Landed files are read a second time only when a plan failed that reads them with Spark."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import NoReturn

import pytest
from pyspark.errors import PySparkException

from dedup_spark import dispatch, job
from dedup_spark.landing import delivery_validation
from dedup_spark.landing.file_validation import FileValidation
from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS

ROW = {"date": date(2026, 3, 1), "product_id": 1, "store_id": 1, "attribute_id": 1, "attr_value": 1, "update_id": 1}


def fail(*_: object) -> NoReturn:
    raise PySparkException("503 Service Unavailable")


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read again."""
    uris: list[str] = []

    def probe(_: object, files: list[FileValidation]) -> list[tuple[FileValidation, str]]:
        uris.extend(file.file.uri for file in files)
        return []

    monkeypatch.setattr(delivery_validation, "unreadable_by_spark", probe)
    return uris


def test_failure_of_adopt_reads_no_landed_file_again(
    area: SparkJobFeed, probed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example when Spark loses its executors."""
    monkeypatch.setattr(dispatch, "run_tasks_of_dates", fail)
    with pytest.raises(PySparkException, match="503"):
        area.publish(area.land(1, [ROW]))
    assert probed == []


def test_failure_of_a_dataframe_plan_reads_them_again(
    area: SparkJobFeed, probed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_plans(*_: object) -> NoReturn:
        raise dispatch.DataFramePlanFailed("the file is damaged")

    monkeypatch.setattr(job, "run_plans", run_plans)
    with pytest.raises(dispatch.DataFramePlanFailed, match="damaged"):
        area.publish(area.land(1, [ROW]))
    assert len(probed) == 1
