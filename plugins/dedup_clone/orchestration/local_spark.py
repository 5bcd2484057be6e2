"""Spark on this machine, by spark-submit."""

from __future__ import annotations

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from dedup_clone.orchestration.by_engine import ByEngine


class LocalSparkOperator(ByEngine, SparkSubmitOperator):
    """spark-submit, unless the order's engine is one in SQL."""
