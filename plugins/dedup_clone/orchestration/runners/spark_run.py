"""What the runners have in common: one Spark run of one attempt, its name, its state, and what a service can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

FAILED_RUNS_TOLERATED = 20
CONSOLE = "https://console.cloud.google.com"


class RunState(StrEnum):
    """PREPARING: what the run needs is being made. READY: it is there, the run itself is to be submitted."""

    PREPARING = "preparing"
    READY = "ready"
    ACTIVE = "active"
    ENDED_WELL = "ended_well"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in (RunState.ENDED_WELL, RunState.FAILED, RunState.CANCELLED)


@dataclass(frozen=True)
class SparkRun:
    """One run as the service knows it. `message` is the service's; `addresses` are pages about it, by their names."""

    name: str
    state: RunState
    message: str = ""
    addresses: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SparkOrder:
    """What is to be run. `limit_s`: after so many seconds the service itself ends the run, should nobody else."""

    request_uri: str
    main_uri: str
    archive_uri: str
    properties: Mapping[str, str]
    labels: Mapping[str, str]
    executors: int
    executor_cores: int
    limit_s: int


class SparkService(Protocol):
    """A place where Spark runs. Every call may be repeated, whatever became of the answer to the last one."""

    def look(self, name: str) -> SparkRun | None:
        """The run of that name, None when there is none."""

    def submit(self, name: str, order: SparkOrder) -> None:
        """Make the run, or the next thing that it needs; one that exists already is left alone."""

    def cancel(self, name: str) -> None:
        """Stop the run and whatever was made for it. Harmless when there is nothing to stop."""

    def clean(self, name: str) -> None:
        """Remove what was made for a run that is over."""


@dataclass(frozen=True)
class RunNames:
    """The names that the runs of one attempt may have: derived, so that whoever comes next finds what is there.

    `clear_number`: how often people cleared the DAG run. A cleared task runs Spark again, a retried one does not.
    """

    feed: str
    attempt: str
    clear_number: int

    def name(self, number: int) -> str:
        """`number` counts failed runs. Fits the rules of batches, jobs and clusters: at most 51 of a-z, 0-9 and -."""
        slug = self.feed.replace("_", "-")[:22].strip("-")
        return f"dc-{slug}-{self.attempt}-c{self.clear_number}-{number}"

    def earlier(self) -> list[RunNames]:
        """The names from before each time that the DAG run was cleared."""
        return [RunNames(self.feed, self.attempt, number) for number in range(self.clear_number)]


@dataclass(frozen=True)
class Found:
    """The run to work with; `run` is None when it is still to be made. `failed` are those before it."""

    name: str
    run: SparkRun | None
    failed: tuple[SparkRun, ...]


def find_run(service: SparkService, names: RunNames, tries: int) -> Found | None:
    """The run to attach to or to reuse, else the name of the next one; None after too many failures.

    `tries`: how often the task may have made a run. So many names are looked at even past one without a run: a cluster
    that was made for a run and deleted before its job leaves no trace, and its follower may be at work.
    """
    free: str | None = None
    failed: list[SparkRun] = []
    for number in range(1, FAILED_RUNS_TOLERATED + 1):
        if free is not None and number > tries:
            break
        name = names.name(number)
        run = service.look(name)
        if run is None:
            free = free or name
        elif run.state in (RunState.FAILED, RunState.CANCELLED):
            failed.append(run)
        else:
            return Found(name, run, tuple(failed))
    return None if free is None else Found(free, None, tuple(failed))


def stop_runs(service: SparkService, names: RunNames, tries: int) -> list[str]:
    """Cancel what is still at work under these names, and remove what was made for the others; names what it stopped.

    `tries`: how often a task may have made a run under them.
    """
    stopped = []
    for number in range(1, tries + 1):
        name = names.name(number)
        run = service.look(name)
        if run is None:
            continue
        if run.state.is_over:
            service.clean(name)
        else:
            service.cancel(name)
            stopped.append(name)
    return stopped
