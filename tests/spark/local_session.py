"""A Spark session with the settings that the local runner gives to spark-submit."""

from __future__ import annotations

import os
import shlex
import sys

from pyspark.sql import SparkSession

from dedup_clone.orchestration.spark_conf import local_spark_conf
from dedup_spark.session import start_session


def local_session(name: str) -> SparkSession:
    conf = {**local_spark_conf("1g"), "spark.master": "local[2]"}
    options = [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]
    os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*options, "pyspark-shell"])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = start_session(name)
    session.sparkContext.setLogLevel("ERROR")
    return session
