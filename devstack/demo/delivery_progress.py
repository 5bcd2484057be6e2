"""Follows a delivery from its landing to the end of its publish run."""

import time
from dataclasses import dataclass, field

from devstack.demo.airflow_api import AirflowApi, DemoError, Task
from devstack.producer.landing import Landed

SENSOR_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 600.0
LOG_LINES_SHOWN = 12
_ACTIVE = ("running", "deferred", "up_for_retry", "up_for_reschedule", "queued", "scheduled")
_ERROR_WORDS = ("error", "critical", "exception", "traceback", "failed")


def publish_dag_id(feed: str) -> str:
    return f"{feed}_publish"


def watch_dag_id(feed: str) -> str:
    return f"{feed}_watch"


def publish_run_id(landed: Landed) -> str:
    """The id of the delivery's first publish run, which the watch DAG derives from the delivery."""
    return f"publish__{landed.snapshot_id}__{landed.marker_generation}"


@dataclass
class DeliveryProgress:
    """One landed delivery, whose publish is followed. `landed_at`: in seconds of `time.monotonic()`."""

    api: AirflowApi
    landed: Landed
    landed_at: float = field(default_factory=time.monotonic)

    def poll(self) -> str | None:
        """What the publish is doing, as text; None once it has succeeded. Raises DemoError if it has failed."""
        dag, run = publish_dag_id(self.landed.feed), publish_run_id(self.landed)
        state = self.api.run_state(dag, run)
        if state == "success":
            return None
        seconds = time.monotonic() - self.landed_at
        if state is None:
            if seconds > SENSOR_TIMEOUT_S:
                raise DemoError(self._not_noticed())
            return f"{self._name()} waits for the sensor"
        tasks = self.api.tasks(dag, run)
        if state == "failed":
            raise DemoError(self._failed(tasks))
        if seconds > RUN_TIMEOUT_S:
            raise DemoError(
                f"{self._name()} is not published after {RUN_TIMEOUT_S:.0f} s: {active_tasks(tasks)}. "
                f"Look at {self.api.run_page(dag, run)}"
            )
        return f"{self._name()} {active_tasks(tasks)}"

    def _name(self) -> str:
        return f"{self.landed.feed} {self.landed.snapshot_id}:"

    def _not_noticed(self) -> str:
        dag = watch_dag_id(self.landed.feed)
        return (
            f"{self._name()} no run [{publish_run_id(self.landed)}] of [{publish_dag_id(self.landed.feed)}] within "
            f"[{SENSOR_TIMEOUT_S:.0f}] s after the marker. The sensor is in [{dag}] "
            f"(paused: {self.api.is_paused(dag)}): look at its last run."
        )

    def _failed(self, tasks: list[Task]) -> str:
        dag, run = publish_dag_id(self.landed.feed), publish_run_id(self.landed)
        failed = [task for task in tasks if task.state == "failed"]
        if not failed:
            return f"{self._name()} run [{run}] failed without a failed task. Look at {self.api.run_page(dag, run)}"
        lines = error_lines(self.api.log_lines(dag, run, failed[0]))
        shown = "\n".join(f"    {line[:300]}" for line in lines) or "    (the log is empty)"
        return (
            f"{self._name()} task [{failed[0].task_id}] failed on try [{failed[0].try_number}]. From its log:\n{shown}"
            f"\n  The whole log: {self.api.run_page(dag, run, failed[0])}"
        )


def active_tasks(tasks: list[Task]) -> str:
    """The tasks of a run that are in the same active state, and this state, as text. Earlier states in _ACTIVE win."""
    for state in _ACTIVE:
        task_ids = [task.task_id for task in tasks if task.state == state]
        if task_ids:
            return f"{', '.join(task_ids)} ({state.replace('_', ' ')})"
    return "between two tasks"


def error_lines(lines: list[str]) -> list[str]:
    """The last lines of a log that contain a word for an error; if there are none, the last lines of the log."""
    matching = [line for line in lines if any(word in line.lower() for word in _ERROR_WORDS)]
    return (matching or lines)[-LOG_LINES_SHOWN:]
