"""Starts Spark sessions with the job's own configuration, or with a configuration for plain DataFrame jobs."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from benchmarks.paths import WORK, pythonpath_variable
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, local_spark_conf
from dedup_spark.execution.session import start_session
from testkit.spark_submit_conf import pyspark_environment

# The dedup job's own JVM options shorten its start. These options suit jobs with many rows: Java's default JIT
# compilers and the parallel garbage collector.
_JVM_OPTIONS = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:ParallelGCThreads=2"}
# Each of these settings makes at least one of the plain DataFrame jobs (modules peers/spark_*) faster on two cores.
_PLAIN_JOB_CONF = {
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.files.maxPartitionBytes": "24m",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.maxConcurrentOutputFileWriters": "1000",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
    "spark.sql.session.timeZone": "UTC",
}


def submit_conf(cores: int = 2) -> dict[str, str]:
    """The local runner's Spark configuration for `cores` cores, with the emulator of STORAGE_EMULATOR_HOST, if set."""
    host = os.environ.get("STORAGE_EMULATOR_HOST")
    overrides = {"spark.master": f"local[{cores}]", "spark.local.dir": str(WORK / "spark")}
    return {**local_spark_conf("8g"), **(emulator_spark_conf(host) if host else {}), **overrides}


def job_session(cores: int = 2) -> SparkSession:
    """A session with the job's own configuration, for the plans `adopt` and `rewrite`, whose work is done in Python."""
    _set_environment(submit_conf(cores))
    return start_session("benchmarks")


def dataframe_plan_session() -> SparkSession:
    """A session for the job's DataFrame plans: the job's own configuration with JVM options for many rows."""
    _set_environment({**submit_conf(), **_JVM_OPTIONS})
    return start_session("benchmarks")


def plain_session() -> SparkSession:
    """A session for the plain DataFrame jobs with which the dedup job is compared."""
    _set_environment({**submit_conf(), **_JVM_OPTIONS, **_PLAIN_JOB_CONF})
    return SparkSession.builder.appName("benchmarks").getOrCreate()


def _set_environment(conf: dict[str, str]) -> None:
    os.environ.update(pyspark_environment(conf) | {"PYTHONPATH": pythonpath_variable()})
