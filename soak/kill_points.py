"""Defines the points of the kill matrix: which process is killed at which moment of a publish."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from soak import kill_moments
from soak.kill_moments import KillMoment
from testkit.proxied_stack import BY_SPARK, EXAMPLE


class Victim(StrEnum):
    """The process to kill."""

    TASK = "task"  # the process that runs the code of an Airflow task
    EXECUTOR_WORKER = "executor_worker"  # the parent of TASK, which reports the task's state to Airflow
    SPARK_DRIVER = "spark_driver"  # the Python process of the dedup job
    SPARK_JVM = "spark_jvm"
    SPARK_WORKER = "spark_worker"  # a Python process that runs the code of Spark's tasks
    SPARK_DAEMON = "spark_daemon"  # the parent of SPARK_WORKER
    SCHEDULER = "scheduler"
    TRIGGERER = "triggerer"
    TRIGGER_RUNNER = "trigger_runner"  # the child of TRIGGERER that runs the triggers
    API_SERVER = "api_server"
    DAG_PROCESSOR = "dag_processor"
    BIGQUERY = "bigquery"  # the stand-in
    STORAGE = "fake_gcs"  # the local server for Cloud Storage
    DATABASE = "database"  # PostgreSQL with Airflow's metadata


# If one of these is killed, the held request is lost: the killed process has sent it, or the sender dies as well.
_SENDERS = frozenset({
    Victim.TASK, Victim.SPARK_DRIVER, Victim.SPARK_JVM, Victim.SPARK_WORKER, Victim.SPARK_DAEMON, Victim.TRIGGER_RUNNER,
})  # fmt: skip
SPARK_PROCESSES = frozenset({Victim.SPARK_JVM, Victim.SPARK_WORKER, Victim.SPARK_DAEMON})

# The names of the moments at which each process is killed.
_MOMENT_NAMES: dict[Victim, tuple[str, ...]] = {
    Victim.TASK: tuple(m.name for m in kill_moments.ALL if not m.without_delivery and not m.deferred_task),
    Victim.EXECUTOR_WORKER: ("resolve.leased", "dedup.writing_candidate", "load.inserting", "swap.committed"),
    Victim.SPARK_DRIVER: ("dedup.examining", "dedup.writing_candidate", "dedup.candidate_written"),
    Victim.SPARK_JVM: ("dedup.examining", "dedup.writing", "dedup.writing_candidate"),
    Victim.SPARK_WORKER: ("dedup.writing",),
    Victim.SPARK_DAEMON: ("dedup.writing",),
    Victim.SCHEDULER: (
        "notice.registered", "resolve.leased", "dedup.writing", "load.running", "check.writing_result",
        "swap.committed", "commit.ledger", "prune.deleting",
    ),
    Victim.TRIGGERER: (
        "notice.waiting", "resolve.leased", "dedup.writing", "load.deferred", "check.writing_result",
        "swap.deferred", "commit.ledger", "prune.deleting",
    ),
    Victim.TRIGGER_RUNNER: ("notice.waiting", "swap.deferred"),
    Victim.BIGQUERY: (
        "notice.registering", "resolve.leased", "dedup.writing_candidate", "load.running", "load.ended",
        "check.observing", "swap.running", "swap.committed", "commit.status", "prune.deleting",
    ),
    Victim.STORAGE: (
        "notice.registering", "resolve.leasing", "resolve.leased", "dedup.writing", "dedup.candidate_written",
        "load.running", "load.recording", "check.writing_result", "swap.committed", "commit.ledger",
        "commit.current", "commit.committed", "prune.deleting",
    ),
    Victim.API_SERVER: ("resolve.leased", "swap.committed"),
    Victim.DAG_PROCESSOR: ("dedup.writing_candidate",),
    Victim.DATABASE: ("resolve.leased", "dedup.writing", "load.deferred", "swap.committed", "commit.ledger"),
}  # fmt: skip


@dataclass(frozen=True)
class KillPoint:
    """One point of the kill matrix: process `victim` is killed at `moment` of a publish of `feed`."""

    victim: Victim
    moment: KillMoment
    feed: str

    @property
    def name(self) -> str:
        return f"{self.moment.name}:{self.victim}"

    @property
    def loses_request(self) -> bool:
        """Whether the held request, or the response to it, is lost because its sender or its server is killed."""
        return self.victim in _SENDERS or self.victim == str(_server_of(self.moment))


def _feed_for(victim: Victim) -> str:
    """The feed whose publish starts this process. Only a feed whose plan needs Spark starts Spark's own processes."""
    return BY_SPARK if victim in SPARK_PROCESSES else EXAMPLE


def _server_of(moment: KillMoment) -> Victim:
    return Victim.STORAGE if moment.service == "storage" else Victim.BIGQUERY


def all_points() -> list[KillPoint]:
    """All points, in the order in which a publish reaches their moments."""
    pairs = {(name, victim) for victim, names in _MOMENT_NAMES.items() for name in names}
    return [
        KillPoint(victim, moment, _feed_for(victim))
        for moment in kill_moments.ALL
        for victim in Victim
        if (moment.name, victim) in pairs
    ]


def select_points(names: str) -> list[KillPoint]:
    """The points that `names` selects; all if it is empty. Raises ValueError for an unknown name.

    `names`: names of points, moments, steps of a publish, or killed processes, separated by commas.
    """
    points = all_points()
    selected: list[KillPoint] = []
    for name in filter(None, names.split(",")):
        matching = [p for p in points if name in (p.name, p.moment.name, p.moment.step, str(p.victim))]
        if not matching:
            point_names = "\n  ".join(p.name for p in points)
            raise ValueError(f"point [{name}] is unknown; points are:\n  {point_names}")
        selected += [p for p in matching if p not in selected]
    return selected or points
