"""Registers the reference of the freshness deadline: the time from which the deadline counts.

Scheduler and API server evaluate the reference when they create a run.
"""

from __future__ import annotations

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from dedup_clone.orchestration.publish.freshness_deadline import ArrivalReference


class DeadlinesPlugin(AirflowPlugin):
    """Every Airflow component loads this file, so it must not import heavy modules."""

    name = "dedup_clone_deadlines"
    deadline_references: ClassVar[list[type[ArrivalReference]]] = [ArrivalReference]
