"""Runners: where the Spark job runs. The dedup task uses the feed's runner, unless an engine in SQL deduplicates."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from dedup_clone.orchestration.runners.runner_config import runner_of
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.settings.spark_settings import Runner


def dedup_operator(setup: FeedSetup, *, task_id: str, request_uri: str, **kwargs: Any) -> BaseOperator:
    """The task that makes the attempt's candidate. `request_uri`: a template of the URI of the attempt's record.

    Raises ConfigurationError when the profile, or for runner `local` this machine, lacks what the runner needs.
    """
    if runner_of(setup) is Runner.LOCAL:
        from dedup_clone.orchestration.runners.local import local_spark_operator

        return local_spark_operator(setup, task_id=task_id, request_uri=request_uri, **kwargs)
    from dedup_clone.orchestration.runners.remote_operator import RemoteSparkOperator

    return RemoteSparkOperator(setup=setup, task_id=task_id, request_uri=request_uri, **kwargs)
