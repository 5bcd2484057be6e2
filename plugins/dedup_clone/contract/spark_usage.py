"""What an attempt's Spark run used, and its price. A runner writes it when the run has ended."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SparkUsage:
    """`dcu_hours`: as the service reports it; None for a service that reports none, whose machine time is priced.

    `vcpus`: those of executors and driver. `usd_per_dcu_hour`, `usd_per_vcpu_hour`: prices of the profile when the run
    ended; None where the profile has none.
    """

    run: str
    dcu_hours: float | None
    vcpus: int
    usd_per_dcu_hour: float
    usd_per_vcpu_hour: float | None

    def usd(self, job_seconds: float) -> float | None:
        """The price of the run, whose job took so many seconds; None if it is not known."""
        if self.dcu_hours is not None:
            return self.dcu_hours * self.usd_per_dcu_hour
        if self.usd_per_vcpu_hour is None:
            return None
        return self.vcpus * job_seconds / 3600 * self.usd_per_vcpu_hour
