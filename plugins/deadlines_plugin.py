"""Registers the freshness deadline's reference, which scheduler and API server evaluate when a run is created."""

from __future__ import annotations

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from dedup_clone.orchestration.deadlines import ArrivalReference


class DeadlinesPlugin(AirflowPlugin):
    """Every component loads this: it imports nothing heavy."""

    name = "dedup_clone_deadlines"
    deadline_references: ClassVar[list[type[ArrivalReference]]] = [ArrivalReference]
