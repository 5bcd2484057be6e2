"""Lists all peers: their names, classes and Spark sessions, and how often they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.peer import Peer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Kinds of Spark sessions. benchmarks/spark_sessions.py starts each of them.
JOB_SESSION, DATAFRAME_PLAN_SESSION, PLAIN_SESSION = "job", "job with a DataFrame plan", "plain"
ONE_CORE_SESSION = "job on one core"


@dataclass(frozen=True)
class PeerEntry:
    """How a peer is made and how often it runs by default. `title`: its name in reports.

    `module`: its module in this package; `module.factory(session, **options)` returns the peer. `session_kind`: the
    kind of its Spark session; "" for a peer without Spark. Each of the `rounds` is a process with `repeats` measured
    runs.
    """

    title: str
    module: str
    factory: str
    session_kind: str = ""
    options: tuple[tuple[str, object], ...] = ()
    rounds: int = 3
    repeats: int = 2

    @property
    def needs_bench_environment(self) -> bool:
        """Whether the peer needs the Python environment that `make bench-setup` installs."""
        return not self.session_kind

    def make(self, session: Callable[[], SparkSession]) -> Peer:
        """Import the peer's module, and make the peer. `session`: returns the process's Spark session."""
        factory = getattr(import_module(f"benchmarks.peers.{self.module}"), self.factory)
        peer: Peer = factory(session, **dict(self.options))
        return peer


def _job(title: str, rounds: int = 3, repeats: int = 3, **options: object) -> PeerEntry:
    return PeerEntry(title, "dedup_job", "DedupJobPeer", JOB_SESSION, tuple(options.items()), rounds, repeats)


def _job_on_one_core(title: str, **options: object) -> PeerEntry:
    return PeerEntry(title, "dedup_job", "DedupJobPeer", ONE_CORE_SESSION, tuple(options.items()), rounds=1, repeats=1)


def _job_with_dataframe_plan(title: str, plan: str) -> PeerEntry:
    return PeerEntry(title, "dedup_job", "DedupJobPeer", DATAFRAME_PLAN_SESSION, (("plan", plan),), rounds=1, repeats=1)


_plain_spark_job = partial(PeerEntry, session_kind=PLAIN_SESSION)

ADOPT = "adopt"
ADOPT_COMPUTED = "adopt-computed"
# For sub-command `memory`: with one core, one task processes a whole date, so its worker shows the memory of that date.
ADOPT_ONE_CORE, ADOPT_COMPUTED_ONE_CORE = "adopt-one-core", "adopt-computed-one-core"
ROW_NUMBER = "spark-row-number"
READ_BOTH = "read-both"
# The job's DataFrame plans are slow, so they are measured on fewer rows.
DATAFRAME_PLANS = ("antijoin", "window")
NOT_IN_PEER_COMPARISON = (*DATAFRAME_PLANS, ADOPT_ONE_CORE, ADOPT_COMPUTED_ONE_CORE)

ENTRIES: dict[str, PeerEntry] = {
    READ_BOTH: PeerEntry(
        "pyarrow reads all columns of both inputs, in Spark tasks", "read_floor", "ReadFloor", JOB_SESSION
    ),
    "read-snapshot": PeerEntry(
        "pyarrow reads all columns of the snapshot, in Spark tasks",
        "read_floor",
        "ReadFloor",
        JOB_SESSION,
        (("inputs_read", ("snapshot",)),),
        rounds=1,
    ),
    ADOPT: _job("**this job: adopt**, stored fingerprints"),
    "adopt-keys": _job("**this job: adopt**, stored fingerprints, keys only", compare_values=False),
    ADOPT_COMPUTED: _job("**this job: adopt**, computed fingerprints", rounds=1, repeats=3, stored_fingerprints=False),
    ADOPT_ONE_CORE: _job_on_one_core("**this job: adopt**, stored fingerprints, on one core"),
    ADOPT_COMPUTED_ONE_CORE: _job_on_one_core(
        "**this job: adopt**, computed fingerprints, on one core", stored_fingerprints=False
    ),
    "adopt-exact": _job("**this job: adopt**, exact join of all keys", rounds=1, repeats=2, exact=True),
    "rewrite": _job("**this job: rewrite**", rounds=1, repeats=1, plan="rewrite"),
    "antijoin": _job_with_dataframe_plan("**this job: antijoin**", "antijoin"),
    "window": _job_with_dataframe_plan("**this job: window**", "window"),
    ROW_NUMBER: _plain_spark_job("Spark ROW_NUMBER", "spark_row_number", "RowNumber", rounds=1, repeats=1),
    "spark-sort-merge": _plain_spark_job(
        "Spark anti-join, sort-merge", "spark_antijoin", "AntiJoin", options=(("hint", "merge"),), rounds=1, repeats=1
    ),
    "spark-shuffled-hash": _plain_spark_job(
        "Spark anti-join, shuffled hash",
        "spark_antijoin",
        "AntiJoin",
        options=(("hint", "shuffle_hash"),),
        rounds=1,
        repeats=1,
    ),
    "spark-copy": _plain_spark_job("plain Spark copy (no dedup)", "spark_copy", "Copy", rounds=1, repeats=1),
    "duckdb-qualify": PeerEntry("DuckDB QUALIFY", "duckdb_qualify", "Qualify", rounds=1, repeats=1),
    "duckdb-antijoin": PeerEntry("DuckDB anti-join", "duckdb_antijoin", "AntiJoin", rounds=1),
    "duckdb-survivors": PeerEntry(
        "DuckDB anti-join, survivors only", "duckdb_antijoin", "AntiJoin", options=(("survivors_only", True),)
    ),
    "duckdb-like-for-like": PeerEntry(
        "DuckDB, everything that adopt does",
        "duckdb_like_for_like",
        "LikeForLike",
        options=(("survivors_only", True),),
        rounds=2,
    ),
    "polars-antijoin": PeerEntry("Polars streaming anti-join", "polars_antijoin", "AntiJoin", rounds=1),
    "polars-survivors": PeerEntry(
        "Polars streaming anti-join, survivors only",
        "polars_antijoin",
        "AntiJoin",
        options=(("survivors_only", True),),
    ),
    "delta-merge": PeerEntry("delta-rs MERGE", "delta_merge", "Merge", rounds=1, repeats=1),
}
