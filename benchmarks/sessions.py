"""Spark sessions of the benchmarks: the job's own for the product, and one tuned for plain DataFrame jobs."""

from __future__ import annotations

import os

from pyspark.sql import SparkSession

from benchmarks.layout import WORK, python_path
from dedup_clone.orchestration.spark_conf import emulator_spark_conf, local_spark_conf
from dedup_spark.session import start_session
from tests.spark.submitting import environment

# Both compilers and a parallel collector: what a machine for jobs by Spark of tens of millions of rows sets.
_LARGE = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC -XX:ParallelGCThreads=2"}
# Measured with the plain jobs on two cores: each of these makes one or more of them faster.
_PEERS = {
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
    """What the local runner gives to spark-submit, with the emulated Cloud Storage when there is one."""
    host = os.environ.get("STORAGE_EMULATOR_HOST")
    place = {"spark.master": "local[2]", "spark.local.dir": str(WORK / "spark")}
    return {**local_spark_conf("8g"), **(emulator_spark_conf(host) if host else {}), **place}


def product_session() -> SparkSession:
    """The job's session, as it is shipped: for plans whose work Python does."""
    _submit(submit_conf())
    return start_session("benchmarks")


def large_product_session() -> SparkSession:
    """The job's session on a machine whose owner expects plans by Spark."""
    _submit({**submit_conf(), **_LARGE})
    return start_session("benchmarks")


def peer_session() -> SparkSession:
    _submit({**submit_conf(), **_LARGE, **_PEERS})
    return SparkSession.builder.appName("benchmarks").getOrCreate()


def _submit(conf: dict[str, str]) -> None:
    os.environ.update(environment(conf) | {"PYTHONPATH": python_path()})
