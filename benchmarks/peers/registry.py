"""Every measured thing: its name, where it is made, in which Python it runs, and how often it is worth running."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from benchmarks.peer import Peer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PRODUCT, LARGE_PRODUCT, PLAIN = "product", "large product", "plain"


@dataclass(frozen=True)
class Entry:
    """`module.factory(session, **options)` makes the peer. `spark`: the kind of its session, "" for none.

    A round is a process of its own with `repeats` measured runs; slow peers have fewer of both.
    """

    title: str
    module: str
    factory: str
    spark: str = ""
    options: tuple[tuple[str, object], ...] = ()
    rounds: int = 3
    repeats: int = 2

    @property
    def in_peers_environment(self) -> bool:
        return not self.spark

    def make(self, session: Callable[[], SparkSession]) -> Peer:
        factory = getattr(import_module(f"benchmarks.peers.{self.module}"), self.factory)
        peer: Peer = factory(session, **dict(self.options))
        return peer


def _product(title: str, rounds: int = 3, repeats: int = 3, **options: object) -> Entry:
    return Entry(title, "product", "Product", PRODUCT, tuple(options.items()), rounds, repeats)


def _by_spark(title: str, plan: str) -> Entry:
    return Entry(title, "product", "Product", LARGE_PRODUCT, (("plan", plan),), rounds=1, repeats=1)


_plain = partial(Entry, spark=PLAIN)

OURS = "adopt"
IN_TASKS = "adopt-tasks"
BASE = "spark-row-number"
FLOOR = "read-both"
# Plans for what neither `adopt` nor `rewrite` takes: measured on fewer rows, for they take minutes.
GENERAL = ("antijoin", "window")

ENTRIES: dict[str, Entry] = {
    FLOOR: Entry("pyarrow reads all columns of both sides, in Spark tasks", "read_floor", "ReadFloor", PRODUCT),
    "read-snapshot": Entry(
        "pyarrow reads all columns of the snapshot, in Spark tasks",
        "read_floor",
        "ReadFloor",
        PRODUCT,
        (("sides", ("snapshot",)),),
        rounds=1,
    ),
    OURS: _product("**this job: adopt**, fingerprints carried"),
    "adopt-keys": _product("**this job: adopt**, carried, keys only", compare_values=False),
    "adopt-computed": _product("**this job: adopt**, fingerprints computed", rounds=1, repeats=3, carried=False),
    "adopt-exact": _product("**this job: adopt**, exact join of all keys", rounds=1, repeats=2, exact=True),
    IN_TASKS: _product("this job: adopt in Spark tasks, carried", rounds=1, repeats=1, in_tasks=True),
    "adopt-computed-tasks": _product(
        "this job: adopt in Spark tasks, computed", rounds=1, repeats=1, in_tasks=True, carried=False
    ),
    "rewrite": _product("**this job: rewrite**", rounds=1, repeats=1, plan="rewrite"),
    "antijoin": _by_spark("**this job: antijoin**", "antijoin"),
    "window": _by_spark("**this job: window**", "window"),
    BASE: _plain("Spark ROW_NUMBER", "spark_row_number", "RowNumber", rounds=1, repeats=1),
    "spark-group-by": _plain("Spark GROUP BY, max_by", "spark_group_by", "GroupBy", rounds=1, repeats=1),
    "spark-sort-merge": _plain(
        "Spark anti-join, sort-merge", "spark_antijoin", "AntiJoin", options=(("hint", "merge"),), rounds=1, repeats=1
    ),
    "spark-shuffled-hash": _plain(
        "Spark anti-join, shuffled hash",
        "spark_antijoin",
        "AntiJoin",
        options=(("hint", "shuffle_hash"),),
        rounds=1,
        repeats=1,
    ),
    "spark-copy": _plain("plain Spark copy (no dedup)", "spark_copy", "Copy", rounds=1, repeats=1),
    "duckdb-qualify": Entry("DuckDB QUALIFY", "duckdb_qualify", "Qualify", rounds=1, repeats=1),
    "duckdb-antijoin": Entry("DuckDB anti-join", "duckdb_antijoin", "AntiJoin", rounds=1),
    "duckdb-survivors": Entry(
        "DuckDB anti-join, survivors only", "duckdb_antijoin", "AntiJoin", options=(("survivors_only", True),)
    ),
    "polars-antijoin": Entry("Polars streaming anti-join", "polars_antijoin", "AntiJoin", rounds=1),
    "polars-survivors": Entry(
        "Polars streaming anti-join, survivors only",
        "polars_antijoin",
        "AntiJoin",
        options=(("survivors_only", True),),
    ),
    "delta-merge": Entry("delta-rs MERGE", "delta_merge", "Merge", rounds=1, repeats=1),
}
