"""Runner `local`: Spark on this machine, with spark-submit."""

from __future__ import annotations

import os
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context

from dedup_clone.orchestration.runners.engine_dispatch import EngineDispatchMixin
from dedup_clone.orchestration.runners.local_spark_conf import emulator_spark_conf, event_log_conf, local_spark_conf
from dedup_clone.orchestration.runners.spark_links import SparkUiLink, push_links
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.task_runtime import open_feed_services, pull_spec

# Environment variables: the address of Spark's history server, which shows running jobs too, and the URI of the folder
# for event logs.
HISTORY_VARIABLE = "DEDUP_CLONE_SPARK_HISTORY"
EVENTS_VARIABLE = "DEDUP_CLONE_SPARK_EVENTS"

LOCAL_RETRIES = 3


class LocalSparkOperator(EngineDispatchMixin, SparkSubmitOperator):
    """The dedup task of the local stack: runs spark-submit, or BigQuery jobs for an SQL engine."""

    operator_extra_links = (SparkUiLink(),)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.urls: dict[str, str] = {}

    def run_spark(self, context: Context) -> Any:
        """Runs Spark. With a history server, the task links to the running jobs, and to the job once it has ended."""
        history = os.environ.get(HISTORY_VARIABLE)
        if not history:
            return super().run_spark(context)
        self._link(context, f"{history}/?showIncomplete=true")
        try:
            return super().run_spark(context)
        finally:
            run = open_feed_services(self.setup).manifests.last_job_run(pull_spec(context).attempt)
            if run:
                self._link(context, f"{history}/history/{run.spark_application}/")

    def _link(self, context: Context, url: str) -> None:
        self.urls = {SparkUiLink.url_key: url}
        push_links(context, self.urls)


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
