"""Keeps the state of the fake services: runs and clusters, which change state after a number of polls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.contract.dataproc.fake import rules
from tests.contract.dataproc.fake.faults import Refused

SUCCEEDED, FAILED, CANCELLED = "succeeded", "failed", "cancelled"
TIMED_OUT = "timed_out"  # the service ended the run at the limit that the request sets


@dataclass
class Run:
    """A batch, a job or a procedure call. `argument`: the URI of its request.

    `polls`: the number of polls so far. `polls_left`: the number of polls until it ends with the outcome `ends`.
    `outcome`: None while it is active. `stopping`: how many more polls report that it is being cancelled.
    """

    name: str
    argument: str
    cluster: str | None
    polls_left: int
    ends: str
    message: str
    outcome: str | None = None
    polls: int = 0
    stopping: int = 0

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


# The state that follows by itself, by a cluster's state (REST reference, ClusterStatus.State).
_NEXT = {
    "REPAIRING": "RUNNING",
    "STARTING": "RUNNING",
    "UPDATING": "RUNNING",
    "STOPPING": "STOPPED",
    "DELETING": "GONE",
}


@dataclass
class FakeCluster:
    """A cluster. `polls_left`: the number of polls until its state changes. `created_as`: the state after CREATING."""

    name: str
    polls_left: int
    state: str = "CREATING"
    created_as: str = "RUNNING"

    def poll(self) -> None:
        following = self.created_as if self.state == "CREATING" else _NEXT.get(self.state)
        if following is not None:
            self.polls_left -= 1
            if self.polls_left < 0:
                self.state, self.polls_left = following, 1

    @property
    def accepts_jobs(self) -> bool:
        return self.state in ("RUNNING", "UPDATING", "ERROR_DUE_TO_UPDATE")


@dataclass
class ServiceState:
    """The runs and clusters of one fake service, by name.

    `slowness`: the number of polls until a state changes. `endings`: outcome and message of the first runs, in order;
    later runs succeed. `created_as`: the states of the first clusters once they are created; later clusters are
    RUNNING. `is_newer`: the service reports unfinished runs and new clusters in states that the installed library does
    not know, and no times. `max_active`: the greatest number of runs that were active at once. `requests`: the number
    of requests of this minute, by quota.
    """

    slowness: int = 1
    endings: list[tuple[str, str]] = field(default_factory=list)
    created_as: list[str] = field(default_factory=list)
    is_newer: bool = False
    runs: dict[str, Run] = field(default_factory=dict)
    clusters: dict[str, FakeCluster] = field(default_factory=dict)
    max_active: int = 0
    requests: Counter[str] = field(default_factory=Counter)

    def count(self, method: str) -> None:
        """Count a request of this minute. The first request beyond a quota is refused; after it a new minute begins."""
        quota = rules.quota_of(method)
        self.requests[quota] += 1
        if self.requests[quota] > rules.QUOTAS[quota]:
            self.requests.clear()
            raise Refused(
                "RESOURCE_EXHAUSTED",
                f"Quota exceeded for quota metric '{quota}' and limit '{quota}' of service 'dataproc.googleapis.com' "
                "for consumer 'project_number:42'.",
            )

    def begin(self, name: str, argument: str, cluster: str | None = None) -> Run:
        if name in self.runs:
            raise Refused("ALREADY_EXISTS", f"Already exists: {name}")
        ends, message = self.endings.pop(0) if self.endings else (SUCCEEDED, "")
        self.runs[name] = Run(name, argument, cluster, self.slowness, ends, message)
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

    def make_cluster(self, name: str) -> FakeCluster:
        if name in self.clusters:
            raise Refused("ALREADY_EXISTS", f"Already exists: Cluster {name}")
        state = self.created_as.pop(0) if self.created_as else "RUNNING"
        self.clusters[name] = FakeCluster(name, self.slowness, created_as=state)
        return self.clusters[name]

    def cluster(self, name: str) -> FakeCluster:
        if name not in self.clusters:
            raise Refused(
                "NOT_FOUND", f"Not found: Cluster projects/{rules.PROJECT}/regions/{rules.REGION}/clusters/{name}"
            )
        return self.clusters[name]

    def poll_cluster(self, name: str) -> FakeCluster:
        cluster = self.cluster(name)
        cluster.poll()
        if cluster.state == "GONE":
            del self.clusters[name]
            return self.cluster(name)
        return cluster

    def delete_cluster(self, name: str) -> None:
        """Delete a cluster. Its active runs fail, as Dataproc's page on scheduled deletion says."""
        cluster = self.cluster(name)
        cluster.state, cluster.polls_left = "DELETING", self.slowness
        for run in self.active:
            if run.cluster == name:
                run.outcome = FAILED

    @property
    def active(self) -> list[Run]:
        return [run for run in self.runs.values() if run.outcome is None]

    @property
    def succeeded(self) -> list[Run]:
        return [run for run in self.runs.values() if run.outcome == SUCCEEDED]

    @property
    def undeleted_clusters(self) -> list[str]:
        """Clusters that are not being deleted, except the one named `shared`, which the fixture creates."""
        return [c.name for c in self.clusters.values() if c.state != "DELETING" and c.name != "shared"]
