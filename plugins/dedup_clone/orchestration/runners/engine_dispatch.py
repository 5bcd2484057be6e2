"""Lets the dedup task run the engine that the attempt names: the feed's, or another one that a replay names.

The engine is not known before the task runs, so the DAG has the same tasks for all engines.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context

from dedup_clone.engines.dedup_in_bigquery import dedup_in_bigquery
from dedup_clone.orchestration.lineage import landing_dataset, operator_lineage, state_dataset, table_dataset
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.task_runtime import (
    RESOLVE_PUBLISH,
    open_feed_services,
    pull_attempt,
    pull_attempt_id,
)
from dedup_clone.publish.records.held_deliveries import is_reused
from dedup_clone.publish.recovery import end_if_all_refused


class EngineDispatchMixin(BaseOperator):
    """Runs BigQuery jobs instead of Spark for an SQL engine. A base class, to be listed before a Spark operator."""

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup
        # After a deferral Airflow makes a new operator and does not call execute(), so this first value must be right
        # then: True, because only Spark defers.
        self.runs_spark = True

    def execute(self, context: Context) -> Any:
        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        # If the attempt of an SQL engine fails, the object that is written here tells the watch DAG that the attempt
        # may have read rows (watch/publish_runs.py).
        services.store.create(services.layout.dedup_started(attempt.id), "")
        self.runs_spark = attempt.engine.runs_spark
        result = None
        if is_reused(services, attempt.id):
            self.log.info("an earlier attempt has deduplicated the same: nothing is left to do")
        elif self.runs_spark:
            result = self.run_spark(context)
        else:
            dedup_in_bigquery(services, attempt.id)
        self.end_if_all_refused(context)
        return result

    def run_spark(self, context: Context) -> Any:
        """Runs the Spark operator, the next class in the method resolution order."""
        return super().execute(context)

    def end_if_all_refused(self, context: Context) -> None:
        """Called after the job ended well, also after a deferral. Fails for good if every delivery was refused."""
        end_if_all_refused(open_feed_services(self.setup), pull_attempt_id(context))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """What the task read and wrote. Only a publish reads landing. State is named as output only."""
        inputs = [landing_dataset(self.setup)] if self.dag.has_task(RESOLVE_PUBLISH) else []
        incoming = table_dataset(self.setup, self.setup.names.incoming_table)
        return operator_lineage(inputs, [state_dataset(self.setup) if self.runs_spark else incoming])
