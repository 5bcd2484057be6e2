"""One Spark session for all tests of the job: starting one costs seconds."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dedup_clone.orchestration.spark_conf import local_spark_conf
from dedup_spark.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    for key, value in local_spark_conf("1g").items():
        SparkSession.builder.config(key, value)
    SparkSession.builder.master("local[2]")
    session = start_session("tests")
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
