"""How many executors a request needs to be done in time, and what that makes of Spark's properties.

A model, not a promise: rates are measured on one machine (docs/runners.md), the run's own figures are in its candidate.
A feed that knows better says so in its section `spark`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from dedup_clone.orchestration.runners.workload import Workload
from dedup_clone.settings.spark import Runner, SparkSize

# Seconds of a vCPU for a row. Adopting reads keys and values of what was delivered; rewriting sorts both sides.
_ADOPT_S = 700e-9
_REWRITE_S = 2.5e-6
_BUSY = 0.7  # the share of the cores that works while a job of uneven dates runs
_TASK_BYTES = 1 << 30  # more cores than tasks of this size, or than dates, would idle
_FEWEST = 2  # the services start no fewer
_START_MINUTES = {
    Runner.LOCAL: 0.5,
    Runner.SERVERLESS: 1.5,
    Runner.CLUSTER: 3.0,
    Runner.BIGQUERY_PROCEDURE: 2.0,
}
# The job commits by its candidate and writes files by itself (ADR 0002). Should a plan ever write through Hadoop, then
# with the one committer that is safe on Cloud Storage.
_COMMITTER = {
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.gs": (
        "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
    )
}


@dataclass(frozen=True)
class Size:
    """What a run gets, and how long it is expected to take with it. `in_time`: within the feed's target."""

    executors: int
    executor_cores: int
    expected_minutes: float
    target_minutes: int
    core_seconds: float
    reason: str

    @property
    def cores(self) -> int:
        return self.executors * self.executor_cores

    @property
    def in_time(self) -> bool:
        return self.expected_minutes <= self.target_minutes

    @property
    def words(self) -> str:
        late = "" if self.in_time else f", LATER than the target of {self.target_minutes}: raise spark.max_executors"
        return (
            f"{self.executors} executors of {self.executor_cores} cores ({self.reason}), "
            f"expected minutes {self.expected_minutes:.1f}{late}"
        )


def size_run(work: Workload, wish: SparkSize, runner: Runner) -> Size:
    """The fewest executors that are done in `wish.target_minutes`, within the feed's bounds."""
    rate, rows = (_ADOPT_S, work.delivered_rows) if work.adoptable else (_REWRITE_S, _all_rows(work))
    core_seconds = rate * rows
    start_s = _START_MINUTES[runner] * 60
    if wish.executors is not None:
        executors, reason = wish.executors, "as the feed says"
    else:
        wanted = ceil(core_seconds / _BUSY / max(wish.target_minutes * 60 - start_s, 60) / wish.executor_cores)
        useful = ceil(max(work.dates, work.delivered_bytes // _TASK_BYTES) / wish.executor_cores)
        executors = max(_FEWEST, min(wanted, useful, wish.max_executors))
        how = "adopted" if work.adoptable else "rewritten"
        reason = (
            f"{work.deliveries} deliveries, {work.delivered_bytes / 1e9:.2f} GB, about {rows:,} rows in {work.dates} "
            f"dates to be {how}"
        )
    seconds = start_s + core_seconds / (executors * wish.executor_cores * _BUSY)
    return Size(executors, wish.executor_cores, seconds / 60, wish.target_minutes, core_seconds, reason)


def spark_properties(size: Size, wish: SparkSize) -> dict[str, str]:
    """Properties that every managed runner takes. Half of the memory is the heap's, half Python's and Arrow's."""
    return {
        **_memory("executor", size.executor_cores, wish.memory_gb_per_core),
        **_memory("driver", wish.driver_cores, wish.memory_gb_per_core),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(_FEWEST),
        "spark.dynamicAllocation.initialExecutors": str(size.executors),
        "spark.dynamicAllocation.maxExecutors": str(max(size.executors, min(2 * size.executors, wish.max_executors))),
        # Executors register one by one: a job that counted cores when it starts would cut itself into too few parts.
        "spark.default.parallelism": str(size.cores),
        **_COMMITTER,
        **wish.properties,
    }


def _all_rows(work: Workload) -> int:
    return work.delivered_rows + work.parent_rows


def _memory(role: str, cores: int, gb_per_core: int) -> dict[str, str]:
    half = cores * gb_per_core * 1024 // 2
    return {
        f"spark.{role}.cores": str(cores),
        f"spark.{role}.memory": f"{half}m",
        f"spark.{role}.memoryOverhead": f"{half}m",
    }
