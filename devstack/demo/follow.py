"""Following one delivery: from its landing, through the sensor, to the end of its publish run."""

import time
from dataclasses import dataclass, field

from devstack.demo.airflow_api import AirflowApi, Task
from devstack.demo.errors import DemoFailed
from devstack.producer.landing import Landed

SENSOR_PATIENCE_S = 120.0
RUN_PATIENCE_S = 600.0
LOG_LINES_SHOWN = 12
_ACTIVE = ("running", "deferred", "up_for_retry", "up_for_reschedule", "queued", "scheduled")
_ERROR_WORDS = ("error", "critical", "exception", "traceback", "failed")


def publish_dag(feed: str) -> str:
    return f"{feed}_publish"


def watch_dag(feed: str) -> str:
    return f"{feed}_watch"


def publish_run(landed: Landed) -> str:
    """The watch DAG names the run after the delivery: the same id for the same delivery, always."""
    return f"publish__{landed.snapshot_id}__{landed.marker_generation}"


@dataclass
class Delivery:
    """One landed snapshot on its way to the target."""

    api: AirflowApi
    landed: Landed
    landed_at: float = field(default_factory=time.monotonic)

    def look(self) -> str | None:
        """What it is doing right now, or None when it is published. Raises DemoFailed when it will not be."""
        dag, run = publish_dag(self.landed.feed), publish_run(self.landed)
        state = self.api.run_state(dag, run)
        if state == "success":
            return None
        seconds = time.monotonic() - self.landed_at
        if state is None:
            if seconds > SENSOR_PATIENCE_S:
                raise DemoFailed(self._not_noticed())
            return f"{self._name()} waits for the sensor"
        tasks = self.api.tasks(dag, run)
        if state == "failed":
            raise DemoFailed(self._failed(tasks))
        if seconds > RUN_PATIENCE_S:
            raise DemoFailed(
                f"{self._name()} is not published after {RUN_PATIENCE_S:.0f} s: {current(tasks)}. "
                f"Look at {self.api.run_page(dag, run)}"
            )
        return f"{self._name()} {current(tasks)}"

    def _name(self) -> str:
        return f"{self.landed.feed} {self.landed.snapshot_id}:"

    def _not_noticed(self) -> str:
        dag = watch_dag(self.landed.feed)
        return (
            f"{self._name()} no run [{publish_run(self.landed)}] of [{publish_dag(self.landed.feed)}] within "
            f"[{SENSOR_PATIENCE_S:.0f}] s after the marker. The sensor is in [{dag}] "
            f"(paused: {self.api.is_paused(dag)}): look at its last run."
        )

    def _failed(self, tasks: list[Task]) -> str:
        dag, run = publish_dag(self.landed.feed), publish_run(self.landed)
        failed = [task for task in tasks if task.state == "failed"]
        if not failed:
            return f"{self._name()} run [{run}] failed without a failed task. Look at {self.api.run_page(dag, run)}"
        lines = error_lines(self.api.log_lines(dag, run, failed[0]))
        shown = "\n".join(f"    {line[:300]}" for line in lines) or "    (the log is empty)"
        return (
            f"{self._name()} task [{failed[0].task_id}] failed on try [{failed[0].try_number}]. From its log:\n{shown}"
            f"\n  The whole log: {self.api.run_page(dag, run, failed[0])}"
        )


def current(tasks: list[Task]) -> str:
    """The task that a run is at, and its state."""
    for state in _ACTIVE:
        at = [task.task_id for task in tasks if task.state == state]
        if at:
            return f"{', '.join(at)} ({state.replace('_', ' ')})"
    return "between two tasks"


def error_lines(lines: list[str]) -> list[str]:
    """The last lines of a log that speak of an error, or its very last lines when none does."""
    telling = [line for line in lines if any(word in line.lower() for word in _ERROR_WORDS)]
    return (telling or lines)[-LOG_LINES_SHOWN:]
