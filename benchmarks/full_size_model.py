"""Models the work and the price of one publish of a table of 15 TB and 730 dates.

The sizing model that each publish uses (dedup_clone.orchestration.runners.sizing) gives executors and minutes. All
other values are measured, or are fields of `Assumptions`, which docs/costs.md lists with their reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.peers.registry import ADOPT, ROW_NUMBER
from benchmarks.results import Results, cpu, median
from dedup_clone.contract.billing import GIB, TIB, USD_PER_STREAMED_GIB, USD_PER_TIB
from dedup_clone.orchestration.runners.sizing import ALL_S_PER_ROW, VCPUS_PER_CORE, RunSize
from dedup_clone.orchestration.runners.workload import Method, Workload
from dedup_clone.settings.spark_settings import SparkSize

HOUR_S = 3600
_QUALIFY, _COPY = "duckdb-qualify", "spark-copy"
NEEDED_PEERS = (ADOPT, ROW_NUMBER, _QUALIFY, _COPY)  # whose figures in the results of `main` the model needs


@dataclass(frozen=True)
class Assumptions:
    """The values that were not measured. Their names contain the units. REASONS explains each value."""

    table_bytes: float = 15e12
    row_bytes: float = 48
    dates: int = 730
    publishes_per_day: int = 6
    changed_share: float = 0.001
    dcus_per_vcpu: float = 0.6
    dcus_per_gb: float = 0.1
    usd_per_dcu_hour: float = 0.06
    delivered_file_bytes: float = 256e6
    reads_per_file: float = 40
    writes_per_file: float = 1
    requests_per_date: float = 3
    usd_per_thousand_writes: float = 0.005
    usd_per_thousand_reads: float = 0.0004
    merge_to_qualify_slot_ratio: float = 2
    group_by_to_qualify_slot_ratio: float = 2


REASONS = {
    "table_bytes": "logical size",
    "row_bytes": "six columns of eight bytes each",
    "dates": "two years",
    "publishes_per_day": "one per delivery",
    "changed_share": "rows that engine `cdc` streams",
    "dcus_per_vcpu": "Google's definition of a DCU (Data Compute Unit), by which Spark Serverless is billed",
    "dcus_per_gb": "the same; a vCPU has 3 GB by default",
    "usd_per_dcu_hour": "standard tier",
    "delivered_file_bytes": "compressed size of a file",
    "reads_per_file": "the footer, and column chunks of row groups with a million rows",
    "writes_per_file": "one server-side copy",
    "requests_per_date": "survivors, fingerprints, a listing; both writes and reads",
    "usd_per_thousand_writes": "Class A operations",
    "usd_per_thousand_reads": "Class B operations",
    "merge_to_qualify_slot_ratio": "measured in a run of the reference method",
    "group_by_to_qualify_slot_ratio": "the same",
}


@dataclass(frozen=True)
class MeasuredPerRow:
    """CPU seconds and bytes per row of the snapshot: medians of a peer's runs, divided by the number of rows."""

    adopt_read_bytes: float
    adopt_shuffled_bytes: float
    row_number_cpu_s: float
    row_number_shuffled_bytes: float
    qualify_cpu_s: float
    snapshot_file_bytes: float


@dataclass(frozen=True)
class FullSize:
    """The modelled time and costs of one publish, and the prices of other methods."""

    assumed: Assumptions
    measured: MeasuredPerRow

    @property
    def rows(self) -> float:
        """The number of rows of the table, and of one snapshot."""
        return self.assumed.table_bytes / self.assumed.row_bytes

    def workload(self, deliveries: int = 1, method: Method = Method.ADOPT) -> Workload:
        """The workload of a publish of `deliveries` complete deliveries, whose dates all take the plan of `method`."""
        rows = round(self.rows)
        delivered_bytes = round(self.assumed.table_bytes) * deliveries
        return Workload(deliveries, delivered_bytes, rows, rows * (deliveries - 1), rows, self.assumed.dates, method)

    def spark_usd(self, size: RunSize) -> float:
        """The price of executors and driver in USD for the wall time of one job."""
        settings = SparkSize()
        vcpus = size.cores + settings.driver_cores
        dcus = vcpus * (self.assumed.dcus_per_vcpu + settings.memory_gb_per_core * self.assumed.dcus_per_gb)
        return dcus * size.expected_minutes / 60 * self.assumed.usd_per_dcu_hour

    @property
    def files(self) -> float:
        """The number of files in one snapshot."""
        bytes_per_date = self.rows / self.assumed.dates * self.measured.snapshot_file_bytes
        return self.assumed.dates * math.ceil(bytes_per_date / self.assumed.delivered_file_bytes)

    @property
    def writes(self) -> float:
        """The number of Class A operations of Cloud Storage in one publish."""
        return self.files * self.assumed.writes_per_file + self.assumed.dates * self.assumed.requests_per_date

    def reads(self, workload: Workload) -> float:
        """The number of Class B operations of Cloud Storage in one publish.

        A publish that writes all dates anew also reads the parent's files.
        """
        snapshots = workload.deliveries + (workload.method in ALL_S_PER_ROW)
        return (
            snapshots * self.files * self.assumed.reads_per_file + self.assumed.dates * self.assumed.requests_per_date
        )

    def operations_usd(self, workload: Workload) -> float:
        """The price of the Cloud Storage operations of one publish."""
        writes_usd = self.writes * self.assumed.usd_per_thousand_writes
        return (writes_usd + self.reads(workload) * self.assumed.usd_per_thousand_reads) / 1000

    def publish_usd(self, workload: Workload, size: RunSize) -> float:
        """The price of one publish with engine `spark`: Spark, and the operations on Cloud Storage."""
        return self.spark_usd(size) + self.operations_usd(workload)

    @property
    def streamed_gib(self) -> float:
        """The GiB that engine `cdc` streams in one publish."""
        return self.assumed.table_bytes * self.assumed.changed_share / GIB

    @property
    def stream_usd(self) -> float:
        """The price of one publish's stream, and of applying it on demand, which reads the table once."""
        return self.streamed_gib * USD_PER_STREAMED_GIB + self.on_demand_usd(1)

    def on_demand_usd(self, table_multiple: float) -> float:
        """The on-demand price in USD of a query that is billed for `table_multiple` times the table's logical bytes."""
        return table_multiple * self.assumed.table_bytes / TIB * USD_PER_TIB

    def slot_hours(self, cpu_s_per_row: float) -> float:
        """The slot time of a query that takes `cpu_s_per_row` CPU seconds per row, if a slot is as fast as a vCPU."""
        return self.rows * cpu_s_per_row * VCPUS_PER_CORE / HOUR_S


def measured_per_row(results: Results) -> MeasuredPerRow:
    """The values per row, from results of `main`. Raises StatisticsError if these lack one of NEEDED_PEERS."""

    def divide_by_rows(peer: str, value: float) -> float:
        return value / results.figures_of(peer)[0].rows

    adopt, row_number = results.figures_of(ADOPT), results.figures_of(ROW_NUMBER)
    # This peer writes only the snapshot, so its written bytes are the size of the snapshot's files.
    copied_bytes = median(results.figures_of(_COPY), lambda measured: measured.written_bytes)
    return MeasuredPerRow(
        adopt_read_bytes=divide_by_rows(ADOPT, median(adopt, lambda measured: measured.read_bytes or 0)),
        adopt_shuffled_bytes=divide_by_rows(ADOPT, median(adopt, lambda measured: measured.shuffled_bytes or 0)),
        row_number_cpu_s=divide_by_rows(ROW_NUMBER, cpu(row_number)),
        row_number_shuffled_bytes=divide_by_rows(
            ROW_NUMBER, median(row_number, lambda measured: measured.shuffled_bytes or 0)
        ),
        qualify_cpu_s=divide_by_rows(_QUALIFY, cpu(results.figures_of(_QUALIFY))),
        snapshot_file_bytes=divide_by_rows(_COPY, copied_bytes),
    )
