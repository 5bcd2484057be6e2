"""A Spark session with the settings that the local runner gives to spark-submit."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from dedup_clone.orchestration.runners.local_spark_conf import local_spark_conf
from dedup_spark.execution.session import start_session
from testkit.spark_submit_conf import pyspark_environment


def local_session(name: str) -> SparkSession:
    conf = {**local_spark_conf("1g"), "spark.master": "local[2]"}
    os.environ.update(pyspark_environment(conf))
    session = start_session(name)
    session.sparkContext.setLogLevel("ERROR")
    return session
