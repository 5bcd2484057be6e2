"""One Spark session for all tests of the job: starting one costs seconds."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from dedup_clone.orchestration.spark_conf import local_spark_conf
from dedup_spark.session import start_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Started with the settings that the local runner gives to spark-submit."""
    conf = {**local_spark_conf("1g"), "spark.master": "local[2]"}
    options = [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*options, "pyspark-shell"])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = start_session("tests")
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
