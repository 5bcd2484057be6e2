"""Estimates how many executors a request needs to finish in time, and derives Spark's properties from that number.

The rates below were measured on one machine (docs/runners.md). The candidate of each run has the times of that run. A
feed can set the number of executors and its bounds in its section `spark`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from dedup_clone.orchestration.runners.workload import Workload
from dedup_clone.settings.spark_settings import Runner, SparkSize

# vCPU seconds per row. Plan adopt reads keys and values of the delivered rows; plan rewrite also sorts the parent's.
_ADOPT_S_PER_ROW = 700e-9
_REWRITE_S_PER_ROW = 2.5e-6
_CORE_UTILIZATION = 0.7  # the share of time in which cores work, in a job whose dates differ in size
# A core is useful for each date or for each task of this size, whichever are more; further cores would be idle.
_TASK_BYTES = 1 << 30
_MIN_EXECUTORS = 2  # the services start no fewer
# Minutes until a run's first executor works.
_START_MINUTES = {
    Runner.LOCAL: 0.5,
    Runner.SERVERLESS: 1.5,
    Runner.CLUSTER: 3.0,
    Runner.BIGQUERY_PROCEDURE: 2.0,
}
# The job does not write through Hadoop (docs/adr/0002). If a plan did, this committer is the only one that is safe on
# Cloud Storage.
_COMMITTER = {
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.gs": (
        "org.apache.hadoop.mapreduce.lib.output.committer.manifest.ManifestCommitterFactory"
    )
}


@dataclass(frozen=True)
class RunSize:
    """The executors of a run, and how long it is expected to take with them."""

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
    def within_target(self) -> bool:
        return self.expected_minutes <= self.target_minutes

    @property
    def summary(self) -> str:
        warning = f", LATER than the target of {self.target_minutes}: raise spark.max_executors"
        return (
            f"{self.executors} executors of {self.executor_cores} cores ({self.reason}), "
            f"expected minutes {self.expected_minutes:.1f}" + ("" if self.within_target else warning)
        )


def size_run(workload: Workload, spark: SparkSize, runner: Runner) -> RunSize:
    """The fewest executors that finish within `spark.target_minutes`, within the feed's bounds."""
    if workload.adoptable:
        plan, rows, s_per_row = "adopted", workload.delivered_rows, _ADOPT_S_PER_ROW
    else:
        plan, rows, s_per_row = "rewritten", workload.delivered_rows + workload.parent_rows, _REWRITE_S_PER_ROW
    core_seconds = s_per_row * rows
    start_s = _START_MINUTES[runner] * 60
    if spark.executors is not None:
        executors, reason = spark.executors, "as the feed says"
    else:
        target_s = max(spark.target_minutes * 60 - start_s, 60)
        needed = ceil(core_seconds / _CORE_UTILIZATION / target_s / spark.executor_cores)
        useful = ceil(max(workload.dates, workload.delivered_bytes // _TASK_BYTES) / spark.executor_cores)
        executors = max(_MIN_EXECUTORS, min(needed, useful, spark.max_executors))
        reason = (
            f"{workload.deliveries} deliveries, {workload.delivered_bytes / 1e9:.2f} GB, about {rows:,} rows in "
            f"{workload.dates} dates to be {plan}"
        )
    seconds = start_s + core_seconds / (executors * spark.executor_cores * _CORE_UTILIZATION)
    return RunSize(executors, spark.executor_cores, seconds / 60, spark.target_minutes, core_seconds, reason)


def spark_properties(size: RunSize, spark: SparkSize) -> dict[str, str]:
    """Properties for every managed runner. Half of the memory is for the JVM heap, half for Python and Arrow."""
    return {
        **_memory("executor", size.executor_cores, spark.memory_gb_per_core),
        **_memory("driver", spark.driver_cores, spark.memory_gb_per_core),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(_MIN_EXECUTORS),
        "spark.dynamicAllocation.initialExecutors": str(size.executors),
        "spark.dynamicAllocation.maxExecutors": str(max(size.executors, min(2 * size.executors, spark.max_executors))),
        # Executors register one by one. Without this, Spark counts the cores at the start and makes too few partitions.
        "spark.default.parallelism": str(size.cores),
        **_COMMITTER,
        **spark.properties,
    }


def _memory(role: str, cores: int, gb_per_core: int) -> dict[str, str]:
    half = cores * gb_per_core * 1024 // 2
    return {
        f"spark.{role}.cores": str(cores),
        f"spark.{role}.memory": f"{half}m",
        f"spark.{role}.memoryOverhead": f"{half}m",
    }
