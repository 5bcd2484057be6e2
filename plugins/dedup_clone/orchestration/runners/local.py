"""Runner `local`: Spark on this machine, with spark-submit."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from dedup_clone.orchestration.runners.engine_dispatch import EngineDispatchMixin
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, event_log_conf, local_spark_conf
from dedup_clone.orchestration.setup import FeedSetup

EVENTS_VARIABLE = "DEDUP_CLONE_SPARK_EVENTS"  # the URI of the folder for event logs

LOCAL_RETRIES = 3


class LocalSparkOperator(EngineDispatchMixin, SparkSubmitOperator):
    """The dedup task of the local stack: runs spark-submit, or BigQuery jobs for an SQL engine."""


def local_spark_operator(setup: FeedSetup, *, task_id: str, request_uri: str, **kwargs: Any) -> LocalSparkOperator:
    """The dedup task, which runs the job's source files against the storage emulator.

    It is retried less often than other tasks: if a local process fails, it seldom succeeds later.
    """
    python_path = os.pathsep.join([str(setup.folders.plugins), str(setup.folders.spark_jobs)])
    return LocalSparkOperator(
        task_id=task_id,
        setup=setup,
        application=str(setup.folders.spark_jobs / "dedup_snapshot.py"),
        application_args=["--request", request_uri],
        conn_id=setup.deployment.spark_connection,
        name=f"dedup {setup.feed.feed}",
        conf={
            **local_spark_conf(),
            **emulator_spark_conf(os.environ.get("STORAGE_EMULATOR_HOST", "")),
            **event_log_conf(os.environ.get(EVENTS_VARIABLE, "")),
        },
        env_vars={"PYTHONPATH": python_path},
        retries=LOCAL_RETRIES,
        **kwargs,
    )
