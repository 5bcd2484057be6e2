"""Keeps the state of the fake services: clusters, and runs, which change state after a number of polls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.contract.dataproc.fake import rules
from tests.contract.dataproc.fake.faults import Refused

SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"


@dataclass
class Run:
    """A batch, a job or a procedure call. `argument`: the URI of its request.

    `polls`: the number of polls so far. `polls_left`: the number of polls until it ends with the outcome `ends`.
    `outcome`: None while it is active. `stopping`: how many more polls report that it is being cancelled.
    `created_at`: tests may set it back.
    """

    name: str
    argument: str
    polls_left: int
    ends: str
    message: str
    outcome: str | None = None
    polls: int = 0
    stopping: int = 0
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def state(self, active: tuple[str, ...], stopping: tuple[str, ...], finished: Mapping[str, str]) -> str:
        """The state in a service's words. The last of `active` and of `stopping` stays until the run ends."""
        if self.stopping:
            return stopping[-min(self.stopping, len(stopping))]
        if self.outcome is None:
            return active[min(max(self.polls, 1), len(active)) - 1]
        return finished[self.outcome]

    def poll(self) -> None:
        self.polls += 1
        self.stopping = max(self.stopping - 1, 0)
        if self.outcome is None:
            self.polls_left -= 1
            if self.polls_left < 0:
                self.outcome = self.ends


@dataclass
class FakeCluster:
    """A cluster, with its state in the words of the REST reference (ClusterStatus.State)."""

    name: str
    state: str = "RUNNING"

    @property
    def accepts_jobs(self) -> bool:
        return self.state in ("RUNNING", "UPDATING", "ERROR_DUE_TO_UPDATE")


@dataclass
class ServiceState:
    """The runs and clusters of one fake service, by name.

    `slowness`: the number of polls until a state changes. `endings`: outcome and message of the first runs, in order;
    later runs succeed. `is_newer`: the service reports unfinished runs in states that the installed library does not
    know, and no times. `max_active`: the greatest number of runs that were active at once.
    """

    slowness: int = 1
    endings: list[tuple[str, str]] = field(default_factory=list)
    is_newer: bool = False
    runs: dict[str, Run] = field(default_factory=dict)
    clusters: dict[str, FakeCluster] = field(default_factory=dict)
    max_active: int = 0

    def begin(self, name: str, argument: str) -> Run:
        if name in self.runs:
            raise Refused("ALREADY_EXISTS", f"Already exists: {name}")
        ends, message = self.endings.pop(0) if self.endings else (SUCCEEDED, "")
        self.runs[name] = Run(name, argument, self.slowness, ends, message)
        self.max_active = max(self.max_active, len(self.active))
        return self.runs[name]

    def run(self, name: str) -> Run:
        if name not in self.runs:
            raise Refused("NOT_FOUND", f"Not found: {name}")
        return self.runs[name]

    def cancel(self, name: str) -> Run:
        run = self.run(name)
        if run.outcome is None:
            run.outcome, run.stopping = CANCELLED, 3
        return run

    def cluster(self, name: str) -> FakeCluster:
        if name not in self.clusters:
            raise Refused(
                "NOT_FOUND", f"Not found: Cluster projects/{rules.PROJECT}/regions/{rules.REGION}/clusters/{name}"
            )
        return self.clusters[name]

    @property
    def active(self) -> list[Run]:
        return [run for run in self.runs.values() if run.outcome is None]

    @property
    def succeeded(self) -> list[Run]:
        return [run for run in self.runs.values() if run.outcome == SUCCEEDED]
