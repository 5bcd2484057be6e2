"""What the fake services hold: runs and clusters that move on by one state each time somebody looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from tests.contract.dataproc.fake.faults import Refused

WELL, FAILED, CANCELLED = "well", "failed", "cancelled"


@dataclass
class Run:
    """A batch, a job or a procedure's call. `looks_left`: until it is over. `outcome` is None while it is at work."""

    name: str
    argument: str
    cluster: str | None
    looks_left: int
    ends: str
    message: str
    outcome: str | None = None

    def look(self) -> None:
        if self.outcome is None:
            self.looks_left -= 1
            if self.looks_left < 0:
                self.outcome = self.ends


@dataclass
class FakeCluster:
    """`looks_left`: until it is made, then until it is gone."""

    name: str
    looks_left: int
    state: str = "CREATING"
    fails: bool = False

    def look(self) -> None:
        if self.state in ("CREATING", "DELETING"):
            self.looks_left -= 1
            if self.looks_left < 0:
                self.state = {"CREATING": "ERROR" if self.fails else "RUNNING", "DELETING": "GONE"}[self.state]


@dataclass
class World:
    """`slowness`: looks until anything is over. `endings`: how the runs end, in the order they are made, then well."""

    slowness: int = 1
    endings: list[tuple[str, str]] = field(default_factory=list)
    failing_clusters: int = 0
    runs: dict[str, Run] = field(default_factory=dict)
    clusters: dict[str, FakeCluster] = field(default_factory=dict)
    most_at_once: int = 0
    operations: Iterator[int] = field(default_factory=lambda: count(1))

    def begin(self, name: str, argument: str, cluster: str | None = None) -> Run:
        if name in self.runs:
            raise Refused("ALREADY_EXISTS", f"Already exists: {name}")
        ends, message = self.endings.pop(0) if self.endings else (WELL, "")
        self.runs[name] = Run(name, argument, cluster, self.slowness, ends, message)
        self.most_at_once = max(self.most_at_once, len(self.active))
        return self.runs[name]

    def run(self, name: str) -> Run:
        if name not in self.runs:
            raise Refused("NOT_FOUND", f"Not found: {name}")
        return self.runs[name]

    def cancel(self, name: str) -> Run:
        run = self.run(name)
        run.outcome = run.outcome or CANCELLED
        return run

    def make_cluster(self, name: str) -> FakeCluster:
        if name in self.clusters:
            raise Refused("ALREADY_EXISTS", f"Already exists: Cluster {name}")
        self.failing_clusters -= 1
        self.clusters[name] = FakeCluster(name, self.slowness, fails=self.failing_clusters >= 0)
        return self.clusters[name]

    def cluster(self, name: str) -> FakeCluster:
        if name not in self.clusters:
            raise Refused("NOT_FOUND", f"Not found: Cluster projects/p/regions/r/clusters/{name}")
        return self.clusters[name]

    def look_at_cluster(self, name: str) -> FakeCluster:
        cluster = self.cluster(name)
        cluster.look()
        if cluster.state == "GONE":
            del self.clusters[name]
            return self.cluster(name)
        return cluster

    def delete_cluster(self, name: str) -> None:
        cluster = self.cluster(name)
        cluster.state, cluster.looks_left = "DELETING", self.slowness
        for run in self.active:
            if run.cluster == name:
                run.outcome = CANCELLED

    @property
    def active(self) -> list[Run]:
        return [run for run in self.runs.values() if run.outcome is None]

    @property
    def ended_well(self) -> list[Run]:
        return [run for run in self.runs.values() if run.outcome == WELL]

    @property
    def costly_clusters(self) -> list[str]:
        """Those that nobody deletes; `standing` ones are made by the test and belong to somebody else."""
        return [c.name for c in self.clusters.values() if c.state != "DELETING" and c.name != "standing"]
