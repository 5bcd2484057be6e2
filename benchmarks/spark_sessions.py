"""Starts Spark sessions with the job's own configuration, or with a configuration for plain DataFrame jobs."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from benchmarks.dataset import CHECKOUT, WORK
from dedup_clone.orchestration.runners.local_spark_conf import local_spark_conf
from dedup_spark.execution.session import start_session
from testkit.spark_submit_conf import pyspark_environment

# Each of these settings makes at least one of the plain DataFrame jobs faster on two cores. The dedup job's own JVM
# options shorten its start; these suit jobs with many rows.
_PLAIN_JOB_CONF = {
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:ParallelGCThreads=2",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.files.maxPartitionBytes": "24m",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.maxConcurrentOutputFileWriters": "1000",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.session.timeZone": "UTC",
}


def pythonpath_variable() -> str:
    """The value of PYTHONPATH for a process that imports dedup_clone, dedup_spark or this package."""
    return os.pathsep.join(str(folder) for folder in (CHECKOUT / "spark_jobs", CHECKOUT / "plugins", CHECKOUT))


def job_session(cores: int = 2) -> SparkSession:
    """A session with the job's own configuration on `cores` cores."""
    _set_environment(_conf(cores))
    return start_session("benchmarks")


def plain_session() -> SparkSession:
    """A session for the plain DataFrame jobs with which the dedup job is compared."""
    _set_environment({**_conf(2), **_PLAIN_JOB_CONF})
    return SparkSession.builder.appName("benchmarks").getOrCreate()


def _conf(cores: int) -> dict[str, str]:
    return {**local_spark_conf("8g"), "spark.master": f"local[{cores}]", "spark.local.dir": str(WORK / "spark")}


def _set_environment(conf: dict[str, str]) -> None:
    os.environ.update(pyspark_environment(conf) | {"PYTHONPATH": pythonpath_variable()})
