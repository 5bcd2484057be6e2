"""The dedup task does what the order of its run says: a replay may ask for another engine than its feed's.

The engine is known when the task runs and not when the DAG is parsed, so tasks and edges are the same for all of them.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseOperator, Context

from dedup_clone.contract.engine import Engine
from dedup_clone.engines.run import dedup_in_bigquery
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import pull_order


class ByEngine(BaseOperator):
    """In front of an operator that runs Spark: `class X(ByEngine, SparkOperator)`. In SQL, the worker does it all."""

    def __init__(self, *, setup: FeedSetup, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup

    def execute(self, context: Context) -> Any:
        order = pull_order(context)
        if order.engine is Engine.SPARK:
            return self.run_spark(context)
        with failing_at_once():
            dedup_in_bigquery(connect(self.setup), order.attempt)
        return None

    def run_spark(self, context: Context) -> Any:
        """What the operator behind this class does."""
        return super().execute(context)
