"""Where the dedup job runs. Every runner gives one task of the same id; each of them also runs the engines in SQL."""

from __future__ import annotations

import os
from typing import Any

from airflow.sdk import BaseOperator, Context

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.by_engine import ByEngine
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.spark_conf import emulator_spark_conf, local_spark_conf
from dedup_clone.settings.deployment import Runner


def dedup_operator(setup: FeedSetup, *, task_id: str, request_uri: str, **kwargs: Any) -> BaseOperator:
    """The task that makes the candidate from the request at `request_uri` (templated), by the order's engine."""
    if setup.deployment.runner is Runner.LOCAL:
        return _local(setup, task_id, request_uri, kwargs)
    return UnavailableRunner(task_id=task_id, setup=setup, runner=setup.deployment.runner, **kwargs)


def _local(setup: FeedSetup, task_id: str, request_uri: str, kwargs: dict[str, Any]) -> BaseOperator:
    from dedup_clone.orchestration.local_spark import LocalSparkOperator

    python_path = os.pathsep.join([str(setup.folders.plugins), str(setup.folders.spark_jobs)])
    return LocalSparkOperator(
        task_id=task_id,
        setup=setup,
        application=str(setup.folders.spark_jobs / "dedup_snapshot.py"),
        application_args=["--request", request_uri],
        conn_id=setup.deployment.spark_connection,
        name=f"dedup {setup.feed.feed}",
        conf={**local_spark_conf(), **emulator_spark_conf(os.environ.get("STORAGE_EMULATOR_HOST", ""))},
        env_vars={"PYTHONPATH": python_path},
        **kwargs,
    )


class UnavailableRunner(ByEngine, BaseOperator):
    """Fails with the reason and the way out: this version submits Spark on the local runner only."""

    def __init__(self, *, runner: Runner, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.runner = runner

    def run_spark(self, context: Context) -> None:
        raise ConfigurationError(
            f"Runner [{self.runner}] cannot submit Spark in this version, expected [{Runner.LOCAL}]: set `runner: "
            f"{Runner.LOCAL}` in the profile and point the Spark connection at a master that reaches the buckets."
        )
