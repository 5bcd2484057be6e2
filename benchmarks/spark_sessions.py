"""Starts Spark sessions with the job's own configuration, or with one that is tuned for plain DataFrame jobs."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from benchmarks.paths import WORK, pythonpath_variable
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, local_spark_conf
from dedup_spark.execution.session import start_session
from testkit.spark_submit_conf import pyspark_environment

# Usual JVM options for Spark jobs with tens of millions of rows: all JIT compilers and the parallel collector.
_JVM_OPTIONS = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:ParallelGCThreads=2"}
# Each of these makes at least one of the plain jobs faster on two cores.
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


def submit_conf() -> dict[str, str]:
    """The Spark configuration of the local runner, with the emulated Cloud Storage if there is one."""
    host = os.environ.get("STORAGE_EMULATOR_HOST")
    master_and_folder = {"spark.master": "local[2]", "spark.local.dir": str(WORK / "spark")}
    return {**local_spark_conf("8g"), **(emulator_spark_conf(host) if host else {}), **master_and_folder}


def job_session() -> SparkSession:
    """A session with the job's own configuration, for its plans that run in Python."""
    _set_environment(submit_conf())
    return start_session("benchmarks")


def general_plan_session() -> SparkSession:
    """A session for the job's plans that run in Spark, with JVM options for many rows."""
    _set_environment({**submit_conf(), **_JVM_OPTIONS})
    return start_session("benchmarks")


def plain_session() -> SparkSession:
    _set_environment({**submit_conf(), **_JVM_OPTIONS, **_PLAIN_JOB_CONF})
    return SparkSession.builder.appName("benchmarks").getOrCreate()


def _set_environment(conf: dict[str, str]) -> None:
    os.environ.update(pyspark_environment(conf) | {"PYTHONPATH": pythonpath_variable()})
