"""What all runners share: an attempt's Spark runs, their names and states, and the calls that a runner offers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol


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
    """One run as the service reports it. `message`: from the service. `created_at`: None if it does not tell.

    `dcu_hours`: what a finished run used; None while it runs, and for services that do not report it.
    `lasted_s`: how many seconds a finished job of a cluster or procedure took; None for other runs.
    """

    name: str
    state: SparkRunState
    message: str = ""
    created_at: datetime | None = None
    dcu_hours: float | None = None
    lasted_s: float | None = None


@dataclass(frozen=True)
class SparkJobSpec:
    """What to run.

    `main_uri`, `archive_uri`: the job's main file, and the zip file of its modules. `ttl_s`: seconds after which the
    run ends in case no task stops it: the service stops a batch or procedure, the driver of a job on a cluster itself.
    """

    request_uri: str
    main_uri: str
    archive_uri: str
    properties: Mapping[str, str]
    labels: Mapping[str, str]
    ttl_s: int


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


def run_name(feed: str, attempt: str, try_number: int) -> str:
    """The name of the run that a try starts, in which batches and jobs allow a-z, 0-9 and -.

    It is not random, so that a later try finds the run.
    """
    slug = feed.replace("_", "-")[:22].strip("-")
    return f"dc-{slug}-{attempt}-{try_number}"


# The arguments of each call. If a call fails, so does the task, which is tried again. The clients' own defaults range
# from no time limit to retries that occupy a worker for a quarter of an hour.
CALL: dict[str, Any] = {"retry": None, "timeout": 60.0}
