"""Where the dedup job runs. Every runner gives one task of the same id; each of them also runs the engines in SQL."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator

from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.runners.place import runner_of
from dedup_clone.settings.spark import Runner


def dedup_operator(setup: FeedSetup, *, task_id: str, request_uri: str, **kwargs: Any) -> BaseOperator:
    """The task that makes the candidate from the request at `request_uri` (templated), by the order's engine.

    Raises ConfigurationError when the profile lacks what the feed's runner needs.
    """
    if runner_of(setup) is Runner.LOCAL:
        from dedup_clone.orchestration.runners.local import local_spark_operator

        return local_spark_operator(setup, task_id=task_id, request_uri=request_uri, **kwargs)
    from dedup_clone.orchestration.runners.remote import RemoteSparkOperator

    return RemoteSparkOperator(setup=setup, task_id=task_id, request_uri=request_uri, **kwargs)
