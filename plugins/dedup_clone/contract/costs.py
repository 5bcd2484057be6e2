"""BigQuery's prices, and records of the Spark runs of an attempt and of what they used.

The task `dedup_snapshot` writes the usage when a run has ended, well or not; with runner `local` there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
USD_PER_TIB = 6.25  # on-demand queries, US
USD_PER_STREAMED_GIB = 0.025  # Storage Write API, without the two TiB a month that are free
MIN_BYTES_BILLED = 10 * MIB  # for each table that a query reads, and for each query, however little it reads


@dataclass(frozen=True)
class JobRun:
    """One run of the dedup job. `run`: its own id, as in the names of its files and folders.

    `spark_application`: Spark's application id, as in its UI and event log.
    """

    run: str
    spark_application: str
    started_at: datetime


@dataclass(frozen=True)
class SparkUsage:
    """The resources that the attempt's last Spark run used, and their prices when the run ended.

    `run`: the run's name in the service. `dcu_hours`: DCU (Data Compute Unit) hours, as reported by the service; None
    if the service reports none (`usd` then prices vCPU time). `vcpus`: those of driver and executors together.
    `usd_per_dcu_hour`, `usd_per_vcpu_hour`: from the profile; `usd_per_vcpu_hour` is None if the profile has no such
    price. `machine_seconds`: how long the service had the run's machines, as far as it says; None if it does not.
    `earlier_usd`, `earlier_dcu_hours`: of the attempt's earlier runs, as far as the service reported them.
    """

    run: str
    dcu_hours: float | None
    vcpus: int
    usd_per_dcu_hour: float
    usd_per_vcpu_hour: float | None
    machine_seconds: float | None = None
    earlier_usd: float = 0.0
    earlier_dcu_hours: float = 0.0

    def usd(self, job_seconds: float | None) -> float | None:
        """The price of all runs in USD, given the seconds that the last one's job took; None if it is not known.

        `job_seconds`: used if the service does not tell the time; None for a run that failed.
        """
        own = self._run_usd(job_seconds)
        return None if own is None else self.earlier_usd + own

    @property
    def all_dcu_hours(self) -> float | None:
        """The DCU hours of all runs; None if the service reports none."""
        return None if self.dcu_hours is None else self.earlier_dcu_hours + self.dcu_hours

    def after(self, earlier: SparkUsage | None) -> SparkUsage:
        """This usage, with what earlier runs used. `earlier`: the record stored before, perhaps of the same run."""
        if earlier is None:
            return self
        if earlier.run == self.run:
            return replace(self, earlier_usd=earlier.earlier_usd, earlier_dcu_hours=earlier.earlier_dcu_hours)
        usd = earlier.earlier_usd + (earlier._run_usd(None) or 0.0)
        return replace(self, earlier_usd=usd, earlier_dcu_hours=earlier.earlier_dcu_hours + (earlier.dcu_hours or 0.0))

    def _run_usd(self, job_seconds: float | None) -> float | None:
        if self.dcu_hours is not None:
            return self.dcu_hours * self.usd_per_dcu_hour
        seconds = job_seconds if self.machine_seconds is None else self.machine_seconds
        if self.usd_per_vcpu_hour is None or seconds is None:
            return None
        return self.vcpus * seconds / 3600 * self.usd_per_vcpu_hour
