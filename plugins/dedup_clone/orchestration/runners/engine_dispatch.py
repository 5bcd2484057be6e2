"""Lets the dedup task run the engine that the publish spec names, because a replay may name another than the feed.

The engine is not known before the task runs, so all engines share the same tasks and edges.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context

from dedup_clone.engines.dedup_in_bigquery import dedup_in_bigquery
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.task_runtime import fail_without_retry, open_feed_services, pull_spec


class EngineDispatchMixin(BaseOperator):
    """Base class, to be listed before a Spark operator. For an SQL engine, BigQuery jobs run instead of Spark."""

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup

    def execute(self, context: Context) -> Any:
        spec, services = pull_spec(context), open_feed_services(self.setup)
        services.store.create(services.layout.dedup_started(spec.attempt), "")
        if spec.engine.runs_spark:
            return self.run_spark(context)
        with fail_without_retry():
            dedup_in_bigquery(services, spec.attempt)
        return None

    def run_spark(self, context: Context) -> Any:
        """Runs the Spark operator, the next class in the method resolution order."""
        return super().execute(context)
