"""Runner `local`: Spark on this machine, with spark-submit."""

from __future__ import annotations

import os

from airflow.sdk.exceptions import AirflowException

from dedup_clone.contract.errors import SparkRunFailed
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, local_spark_conf
from dedup_clone.orchestration.step import FeedRun


def run_local_spark(run: FeedRun) -> None:
    """Runs the job's source files against the storage emulator, and returns when the job has succeeded."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook  # not installed for other runners

    folders = run.setup.folders
    hook = SparkSubmitHook(
        application_args=["--request", run.attempt.uri],
        conn_id="spark_default",
        name=f"dedup {run.setup.feed.feed}",
        conf={**local_spark_conf(), **emulator_spark_conf(os.environ.get("STORAGE_EMULATOR_HOST", ""))},
        env_vars={"PYTHONPATH": os.pathsep.join([str(folders.plugins), str(folders.spark_jobs)])},
    )
    run.on_kill = hook.on_kill
    try:
        hook.submit(str(folders.spark_jobs / "dedup_snapshot.py"))
    except AirflowException as error:
        raise SparkRunFailed(str(error)) from error
