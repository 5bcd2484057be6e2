"""BigQuery's prices, and the record of what the Spark runs of an attempt used.

The task `dedup_snapshot` writes the usage when a run has ended, well or not; with runner `local` there is none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40
USD_PER_TIB = 6.25  # on-demand queries, US
USD_PER_STREAMED_GIB = 0.025  # Storage Write API, without the two TiB a month that are free
MIN_BYTES_BILLED = 10 * MIB  # for each table that a query reads, and for each query, however little it reads


@dataclass(frozen=True)
class SparkUsage:
    """What the attempt's Spark runs cost in USD, by the profile's prices when they ended.

    `run`: the name of the last one in the service. `usd`: its price; None if it is not known. `earlier_usd`: the price
    of the attempt's earlier runs, as far as it was known.
    """

    run: str
    usd: float | None = None
    earlier_usd: float = 0.0

    @property
    def total_usd(self) -> float | None:
        """The price of all runs; None if that of the last one is not known."""
        return None if self.usd is None else self.earlier_usd + self.usd

    def after(self, earlier: SparkUsage | None) -> SparkUsage:
        """This usage, with what earlier runs cost. `earlier`: the record stored before, perhaps of the same run."""
        if earlier is None:
            return self
        own = 0.0 if earlier.run == self.run else earlier.usd or 0.0
        return replace(self, earlier_usd=earlier.earlier_usd + own)
