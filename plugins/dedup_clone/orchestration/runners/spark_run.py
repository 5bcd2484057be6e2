"""What all runners share: an attempt's Spark runs, their names and states, and the calls that a runner offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

MAX_FAILED_RUNS = 20  # of one attempt
CONSOLE = "https://console.cloud.google.com"


class SparkRunState(StrEnum):
    """ACTIVE: the job was submitted and has not finished."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_finished(self) -> bool:
        return self is not SparkRunState.ACTIVE


@dataclass(frozen=True)
class SparkRun:
    """One run as the service reports it. `message`: from the service. `log`: the address of its log.

    `dcu_hours`: what a finished run used; None while it runs, and for services that do not report it.
    `timed_out`: the service itself ended it after `SparkJobSpec.timeout_s`. `lasted_s`: how many seconds a finished
    job of a cluster or procedure took; None for other runs.
    """

    name: str
    state: SparkRunState
    message: str = ""
    log: str = ""
    dcu_hours: float | None = None
    timed_out: bool = False
    lasted_s: float | None = None


@dataclass(frozen=True)
class SparkJobSpec:
    """What to run.

    `main_uri`, `archive_uri`: the job's main file, and the zip file of its modules. `timeout_s`: seconds after which
    Airflow stops the run, counted from when the task last began to wait for it. If Airflow does not, the service does:
    it stops a batch or procedure after the same time (a batch after ten minutes at the earliest), but never a job on a
    cluster.
    """

    request_uri: str
    main_uri: str
    archive_uri: str
    properties: Mapping[str, str]
    labels: Mapping[str, str]
    timeout_s: int

    @property
    def dataproc_labels(self) -> dict[str, str]:
        """The labels for Dataproc, whose reference asks for RFC 1035: no `_`, and a letter first.

        Labels of the profile stay as they are, because Dataproc is not known to refuse them.
        """
        return dict(map(_rfc_1035, self.labels, self.labels.values()))


class SparkRunner(Protocol):
    """A service that runs Spark. Every call can safely be repeated, for instance when its response was lost.

    A call that fails raises the error of Google's client.
    """

    def get_run(self, name: str) -> SparkRun | None:
        """The run with this name; None when there is none."""

    def submit(self, name: str, spec: SparkJobSpec) -> None:
        """Starts the run. Does nothing if it exists."""

    def cancel(self, name: str) -> None:
        """Stops the run. Does nothing when there is no such run, or when it has finished."""


@dataclass(frozen=True)
class RunNames:
    """The names of one attempt's runs. They are not random, so that a retry finds the runs of earlier tries.

    `clear_number`: how often the DAG run, or tasks of it, were cleared. It is part of the names, so that a cleared task
    runs Spark again.
    """

    feed: str
    attempt: str
    clear_number: int

    def name(self, number: int) -> str:
        """The name of run `number`, counted from 1: at most 51 characters of a-z, 0-9 and -, as clusters require."""
        slug = self.feed.replace("_", "-")[:22].strip("-")
        return f"dc-{slug}-{self.attempt}-c{self.clear_number}-{number}"

    def before_clears(self) -> list[RunNames]:
        """The names of the runs from before each clear of the DAG run."""
        return [RunNames(self.feed, self.attempt, number) for number in range(self.clear_number)]


def run_number(name: str) -> int:
    """The number of the run with this name, from 1."""
    return int(name.rsplit("-", 1)[1])


def _rfc_1035(key: str, value: str) -> tuple[str, str]:
    """The label in the form of RFC 1035 if it is one of this project's; else the label as it is."""
    if not key.startswith("dedup_clone_"):
        return key, value
    text = value.replace("_", "-").strip("-")
    return key.replace("_", "-"), text if text[0].isalpha() else f"n{text}"


@dataclass(frozen=True)
class SelectedRun:
    """The run to attach to or, if `run` is None, the name of the run to start."""

    name: str
    run: SparkRun | None


def select_run(runner: SparkRunner, names: RunNames, tries: int) -> SelectedRun | None:
    """The run that is unfinished or succeeded, else the first free name. None after `MAX_FAILED_RUNS` failures.

    `tries`: the number of runs that the task can have started. A free name does not end the search before that number:
    a cluster that was deleted before its job was submitted leaves a free name, and a later run can be active.
    """
    free_name: str | None = None
    for number in range(1, MAX_FAILED_RUNS + 1):
        if free_name is not None and number > tries:
            break
        name = names.name(number)
        run = runner.get_run(name)
        if run is None:
            free_name = free_name or name
        elif run.state not in (SparkRunState.FAILED, SparkRunState.CANCELLED):
            return SelectedRun(name, run)
    return None if free_name is None else SelectedRun(free_name, None)


def stop_runs(runner: SparkRunner, names: RunNames, tries: int) -> list[str]:
    """Cancels unfinished runs. Returns their names.

    `tries`: the number of runs that the task can have started.
    """
    stopped = []
    for number in range(1, tries + 1):
        name = names.name(number)
        run = runner.get_run(name)
        if run is not None and not run.state.is_finished:
            runner.cancel(name)
            stopped.append(name)
    return stopped
