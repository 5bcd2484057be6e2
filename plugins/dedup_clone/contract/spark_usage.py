"""The record of the resources that an attempt's Spark run used.

The task `dedup_snapshot` writes it when the run has ended; with runner `local` there is none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkUsage:
    """The resources that one Spark run used, and their prices when the run ended.

    `run`: the run's name in the service. `dcu_hours`: DCU (Data Compute Unit) hours, as reported by the service; None
    if the service reports none (`usd` then prices vCPU time). `vcpus`: those of driver and executors together.
    `usd_per_dcu_hour`, `usd_per_vcpu_hour`: from the profile; `usd_per_vcpu_hour` is None if the profile has no such
    price.
    """

    run: str
    dcu_hours: float | None
    vcpus: int
    usd_per_dcu_hour: float
    usd_per_vcpu_hour: float | None

    def usd(self, job_seconds: float) -> float | None:
        """The price of the run in USD, given the seconds that its job took; None if no price is known."""
        if self.dcu_hours is not None:
            return self.dcu_hours * self.usd_per_dcu_hour
        if self.usd_per_vcpu_hour is None:
            return None
        return self.vcpus * job_seconds / 3600 * self.usd_per_vcpu_hour
