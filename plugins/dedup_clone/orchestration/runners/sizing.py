"""Estimates an attempt's work and the executors that finish it in time, and derives Spark's properties.

The figures of docs/costs-and-limits.md come from this model. Its rates were measured on one machine. The times of a
real run, for comparison, are in the candidate that it writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.landed_objects import objects_by_date
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.services import Services
from dedup_clone.settings.spark_settings import SparkSize

_BYTES_PER_ROW = 8  # a guess for when the parent has no rows of the dates; else the parent's row count is used


@dataclass(frozen=True)
class Workload:
    """How much work an attempt is.

    `deliveries`, `dates`: how many of them the attempt has; without date folders, the dates are those of the parent.
    `newest_rows`, `older_rows`: about how many rows the newest delivery has, and all others together. `parent_rows`:
    how many the parent has. If only some dates are replayed, bytes and rows are those of these dates. `plan`: that of
    most dates, as far as it is known before the run.
    """

    deliveries: int
    delivered_bytes: int
    newest_rows: int
    older_rows: int
    parent_rows: int
    dates: int
    plan: Plan = Plan.ADOPT

    @property
    def delivered_rows(self) -> int:
        return self.newest_rows + self.older_rows


def read_workload(services: Services, attempt_id: str) -> Workload:
    """The workload of an attempt. Raises ContractViolation when its attempt or an arrival record is missing."""
    attempt = services.manifests.attempt(attempt_id)
    arrivals = [_arrival(services, attempt.arrival_uri(d)) for d in attempt.deliveries]
    by_date = [item for a in arrivals for item in objects_by_date(a, attempt.table.date_folder).items()]
    objects = [o for arrival in arrivals for o in arrival.objects]
    if attempt.dates is not None:
        by_date = [(day, files) for day, files in by_date if day in attempt.dates]
        objects = [o for _, files in by_date for o in files]
    delivered_bytes = sum(o.size for o in objects)
    parent = services.manifests.read(attempt.parent) if attempt.parent and attempt.parent_files else None
    parent_dates = [e for e in parent.dates if attempt.dates is None or e.date in attempt.dates] if parent else []
    parent_rows = sum(entry.rows for entry in parent_dates)
    older_deliveries = max(len(attempt.deliveries) - 1, 0)
    newest_rows = parent_rows or delivered_bytes // _BYTES_PER_ROW // (older_deliveries + 1)
    dates = {day for day, _ in by_date}
    return Workload(
        deliveries=len(attempt.deliveries),
        delivered_bytes=delivered_bytes,
        newest_rows=newest_rows,
        older_rows=newest_rows * older_deliveries,
        parent_rows=parent_rows,
        dates=len(dates) or len(parent_dates) or 1,
        plan=_plan(attempt),
    )


def _arrival(services: Services, uri: str) -> Arrival:
    arrival = services.store.read_record(Arrival, uri.removeprefix(services.store.uri("")))
    if arrival is None:
        raise ContractViolation(
            f"Arrival [{uri}] is gone: restore an earlier version of it (docs/runbook.md, lost records), then retry."
        )
    return arrival


def _plan(attempt: Attempt) -> Plan:
    if attempt.erases:
        return Plan.ADOPT  # the job reads the keys of the parent, as adopt does
    if attempt.plan is Plan.WINDOW or not attempt.date_folders:
        return Plan.WINDOW
    if attempt.plan is Plan.REWRITE or attempt.exact or attempt.update_id_mode is UpdateIdMode.LAST_CHANGED:
        return Plan.REWRITE if len(attempt.deliveries) == 1 else Plan.WINDOW
    return Plan.ADOPT


# A vCPU, which is what Spark calls a core here, is one of the two threads of a physical core. It is taken for half of a
# core of the machine that was measured.
# vCPU seconds for each row of the newest delivery. In dates of hundreds of millions of rows a row takes twice the time
# that it takes in dates of two million, because their sketches do not fit the processor's cache. These are the
# rates of large dates.
ADOPTED_S_PER_ROW = 700e-9
# vCPU seconds for each row of the older deliveries of a backlog whose newest delivery is adopted.
OLDER_S_PER_ROW = 500e-9
# vCPU seconds for each row of the deliveries and of the parent: rows of both are sorted and written.
ALL_S_PER_ROW = {Plan.REWRITE: 2.5e-6, Plan.WINDOW: 7.7e-6}
CORE_UTILIZATION = 0.7  # the share of time in which cores work, in a job whose dates differ in size
# There is work for as many cores as there are dates, or tasks with this many delivered bytes, whichever is more.
_TASK_BYTES = 1 << 30
_MIN_EXECUTORS = 2  # the services start no fewer
CORES = 4  # of the driver, and of each executor
# The most initial executors of a serverless batch, according to some versions of Dataproc's page on autoscaling.
# Dynamic allocation then requests the others.
_MAX_INITIAL_EXECUTORS = 100
START_S = 90.0  # from the submission of a run until its first executor works


@dataclass(frozen=True)
class RunSize:
    """The executors of a run, and how many minutes it is expected to take with them from its submission.

    `most_executors`: the most that the run can scale up to. That is twice `executors`, or what a rewrite of all
    dates would need if that is more; at most the feed's `max_executors`.
    """

    executors: int
    most_executors: int
    expected_minutes: float

    @property
    def cores(self) -> int:
        return self.executors * CORES

    @property
    def vcpus(self) -> int:
        """Those of the executors and of the driver."""
        return self.cores + CORES


def vcpu_seconds(workload: Workload) -> float:
    """The vCPU seconds of work that the run needs, summed over all executors."""
    if workload.plan in ALL_S_PER_ROW:
        return ALL_S_PER_ROW[workload.plan] * (workload.delivered_rows + workload.parent_rows)
    return ADOPTED_S_PER_ROW * workload.newest_rows + OLDER_S_PER_ROW * workload.older_rows


def size_run(workload: Workload, spark: SparkSize) -> RunSize:
    """The fewest executors that finish in `target_minutes`, at most `max_executors`."""
    executors = _executors(workload, spark)
    rewriting = _executors(replace(workload, plan=Plan.REWRITE), spark)
    most = max(executors, rewriting, min(2 * executors, spark.max_executors))
    seconds = START_S + vcpu_seconds(workload) / (executors * CORES * CORE_UTILIZATION)
    return RunSize(executors, most, seconds / 60)


def describe_size(size: RunSize, workload: Workload, spark: SparkSize) -> str:
    """The size and the reason for it, for the log."""
    text = (
        f"{size.executors} executors of {CORES} cores ({workload.deliveries} deliveries, "
        f"{workload.delivered_bytes / 1e9:.2f} GB, about {workload.delivered_rows:,} rows in {workload.dates} dates, "
        f"plan {workload.plan}), expected minutes {size.expected_minutes:.1f}"
    )
    if size.expected_minutes > spark.target_minutes:
        text += f", LATER than the target of {spark.target_minutes}: raise spark.max_executors"
    return text


def _executors(workload: Workload, spark: SparkSize) -> int:
    """The fewest executors that finish in time: at least two, at most `max_executors`, and no more than have work."""
    target_s = max(spark.target_minutes * 60 - START_S, 60)
    needed = ceil(vcpu_seconds(workload) / CORE_UTILIZATION / target_s / CORES)
    useful = ceil(max(workload.dates, workload.delivered_bytes // _TASK_BYTES) / CORES)
    return max(_MIN_EXECUTORS, min(needed, useful, spark.max_executors))


def spark_properties(size: RunSize, spark: SparkSize) -> dict[str, str]:
    """Properties for every managed runner. Half of the memory is for the JVM heap, half for Python and Arrow."""
    return {
        **_memory("executor", spark.memory_gb_per_core),
        **_memory("driver", spark.memory_gb_per_core),
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(_MIN_EXECUTORS),
        "spark.dynamicAllocation.initialExecutors": str(min(size.executors, _MAX_INITIAL_EXECUTORS)),
        "spark.dynamicAllocation.maxExecutors": str(size.most_executors),
        # By default Spark makes a partition for each core that it has at the start. As executors register one by one,
        # these are too few.
        "spark.default.parallelism": str(size.cores),
        **spark.properties,
    }


def _memory(role: str, gb_per_core: int) -> dict[str, str]:
    """Cores and memory of the driver, or of each executor. `role`: `driver` or `executor`."""
    half_mib = CORES * gb_per_core * 1024 // 2
    return {
        f"spark.{role}.cores": str(CORES),
        f"spark.{role}.memory": f"{half_mib}m",
        f"spark.{role}.memoryOverhead": f"{half_mib}m",
    }
