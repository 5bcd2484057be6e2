"""One Spark session for all tests of the job, because starting one costs seconds, and a feed for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from testkit.spark_job_feed import SparkJobFeed
from testkit.table_contracts import PRODUCTS
from tests.spark.local_session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("tests")
    yield session
    session.stop()


@pytest.fixture
def area(tmp_path: Path) -> SparkJobFeed:
    """A feed without Spark: what needs a session fails."""
    return SparkJobFeed(None, str(tmp_path / "landing"), str(tmp_path / "state"), PRODUCTS)


@pytest.fixture
def with_spark(spark: SparkSession, area: SparkJobFeed) -> SparkJobFeed:
    area.session = spark
    return area
