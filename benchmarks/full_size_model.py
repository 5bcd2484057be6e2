"""Models the time and costs of one publish of a table of 15 TB and 730 dates (sub-command `model`).

The model multiplies the CPU seconds and bytes per row that the other sub-commands measured. Every value that was not
measured is a field of `Assumptions`; docs/costs.md lists these with their reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from benchmarks.docs_tables import table
from benchmarks.peers.registry import ADOPT, ROW_NUMBER
from benchmarks.results import Figure, Results, cpu, median
from dedup_clone.contract.billing import TIB, USD_PER_TIB
from dedup_clone.publish.records.publish_costs import merge_input_of_rows
from testkit.table_contracts import PRODUCTS

_QUALIFY, _COPY = "duckdb-qualify", "spark-copy"
_EXECUTOR_COUNTS = (8, 16, 25, 50, 100)
_COMPARED_EXECUTORS = 25
_HOUR_S = 3600


@dataclass(frozen=True)
class Assumptions:
    """The values that were not measured. Names end with their units (`_s`: seconds). REASONS explains each value."""

    table_bytes: float = 15e12
    row_bytes: float = 48
    dates: int = 730
    publishes_per_day: int = 6
    vcpus_per_core: float = 2
    utilisation: float = 0.8
    vcpus_per_executor: int = 4
    dcus_per_executor: float = 4.0
    usd_per_dcu_hour: float = 0.06
    start_s: float = 90
    read_bytes_per_s_per_vcpu: float = 50e6
    delivered_file_bytes: float = 256e6
    reads_per_file: float = 40
    writes_per_file: float = 1
    requests_per_date: float = 3
    usd_per_thousand_writes: float = 0.005
    usd_per_thousand_reads: float = 0.0004
    usd_per_slot_hour: float = 0.06
    merge_to_qualify_slot_ratio: float = 2


REASONS = {
    "table_bytes": "the logical size of the table",
    "row_bytes": "six columns of eight bytes each, as in the measured run of the reference method",
    "dates": "two years",
    "publishes_per_day": "one per delivery",
    "vcpus_per_core": "a vCPU is one of a core's two threads, so it counts as half of a core measured here",
    "utilisation": "the share of the executors' time that tasks use: the last tasks do not occupy all vCPUs",
    "vcpus_per_executor": "an executor has 4 vCPUs and 16 GB, and so has the driver",
    "dcus_per_executor": "0.6 per vCPU and 0.1 per GB",
    "usd_per_dcu_hour": "the price of the standard tier",
    "start_s": "the time from the submission of a Serverless batch to its first task; it is not measured here",
    "read_bytes_per_s_per_vcpu": "reading from Cloud Storage; well below the network speed that Google states",
    "delivered_file_bytes": "the compressed size of one delivered file",
    "reads_per_file": "one for the footer and the others for column chunks of row groups with a million rows",
    "writes_per_file": "one server-side copy, which sends no bytes through the job",
    "requests_per_date": "one each for survivors, fingerprints and a listing; counted as writes and as reads",
    "usd_per_thousand_writes": "the price of Class A operations",
    "usd_per_thousand_reads": "the price of Class B operations",
    "usd_per_slot_hour": "the price of the Enterprise edition",
    "merge_to_qualify_slot_ratio": "MERGE used twice the slots of QUALIFY in the measured run of the reference method",
}


@dataclass(frozen=True)
class MeasuredPerRow:
    """CPU seconds and bytes per row of the snapshot: medians of the measured runs of a peer, divided by the rows."""

    adopt_cpu_s: float
    adopt_read_bytes: float
    adopt_shuffled_bytes: float
    row_number_cpu_s: float
    row_number_shuffled_bytes: float
    qualify_cpu_s: float
    snapshot_file_bytes: float


@dataclass(frozen=True)
class FullSize:
    """The modelled time and costs of one publish with plan `adopt`, and the prices of other methods."""

    assumed: Assumptions
    measured: MeasuredPerRow

    @property
    def rows(self) -> float:
        return self.assumed.table_bytes / self.assumed.row_bytes

    @property
    def cpu_hours(self) -> float:
        """Hours of one core of the machine on which the benchmark ran."""
        return self.rows * self.measured.adopt_cpu_s / _HOUR_S

    def seconds_per_date(self) -> float:
        """The seconds that one vCPU needs for one date: for computing or for reading, whichever takes longer."""
        rows = self.rows / self.assumed.dates
        computing_s = rows * self.measured.adopt_cpu_s * self.assumed.vcpus_per_core
        reading_s = rows * self.measured.adopt_read_bytes / self.assumed.read_bytes_per_s_per_vcpu
        return max(computing_s, reading_s)

    def wall_s(self, executors: int) -> float:
        """The wall seconds of the job: its start, and then the longer of two lower bounds.

        One bound is that a date is processed by one vCPU as a whole, so the vCPUs work in rounds of one date each. The
        other is the sum of the work, divided among all vCPUs, which tasks occupy for the share `utilisation` only.
        """
        vcpus = executors * self.assumed.vcpus_per_executor
        rounds_s = self.seconds_per_date() * math.ceil(self.assumed.dates / vcpus)
        shared_work_s = self.assumed.dates * self.seconds_per_date() / (vcpus * self.assumed.utilisation)
        return self.assumed.start_s + max(rounds_s, shared_work_s)

    def spark_usd(self, executors: int) -> float:
        """The price of the executors, and of a driver as large as an executor, for the job's wall time."""
        dcus = (executors + 1) * self.assumed.dcus_per_executor
        return dcus * self.wall_s(executors) / _HOUR_S * self.assumed.usd_per_dcu_hour

    @property
    def files(self) -> float:
        """The number of files in one snapshot."""
        bytes_per_date = self.rows / self.assumed.dates * self.measured.snapshot_file_bytes
        return self.assumed.dates * math.ceil(bytes_per_date / self.assumed.delivered_file_bytes)

    @property
    def writes(self) -> float:
        """Class A operations of Cloud Storage."""
        return self.files * self.assumed.writes_per_file + self.assumed.dates * self.assumed.requests_per_date

    @property
    def reads(self) -> float:
        """Class B operations of Cloud Storage."""
        return self.files * self.assumed.reads_per_file + self.assumed.dates * self.assumed.requests_per_date

    @property
    def storage_usd(self) -> float:
        writes_usd = self.writes * self.assumed.usd_per_thousand_writes
        return (writes_usd + self.reads * self.assumed.usd_per_thousand_reads) / 1000

    def on_demand_usd(self, table_multiple: float) -> float:
        """The on-demand price of a query that bills `table_multiple` times the table's logical bytes."""
        return table_multiple * self.assumed.table_bytes / TIB * USD_PER_TIB

    def slots_usd(self, cpu_s_per_row: float) -> float:
        """The price of a query by slots, if a slot needs as long as a vCPU with the engine whose time is given."""
        slot_hours = self.rows * cpu_s_per_row * self.assumed.vcpus_per_core / _HOUR_S
        return slot_hours * self.assumed.usd_per_slot_hour


def measured_per_row(results: Results) -> MeasuredPerRow:
    """The values per row from the results of sub-command `main`. Raises StatisticsError when a peer is missing."""

    def per_row(peer: str, value: float) -> float:
        return value / results.of(peer)[0].rows

    adopt, row_number = results.of(ADOPT), results.of(ROW_NUMBER)
    # This peer writes the snapshot and nothing else, so its bytes are those of the snapshot's files.
    copied_bytes = median(results.of(_COPY), lambda one: one.written_bytes)
    return MeasuredPerRow(
        adopt_cpu_s=per_row(ADOPT, cpu(adopt)),
        adopt_read_bytes=per_row(ADOPT, median(adopt, lambda one: one.read_bytes or 0)),
        adopt_shuffled_bytes=per_row(ADOPT, median(adopt, lambda one: one.shuffled_bytes)),
        row_number_cpu_s=per_row(ROW_NUMBER, cpu(row_number)),
        row_number_shuffled_bytes=per_row(ROW_NUMBER, median(row_number, lambda one: one.shuffled_bytes)),
        qualify_cpu_s=per_row(_QUALIFY, cpu(results.of(_QUALIFY))),
        snapshot_file_bytes=per_row(_COPY, copied_bytes),
    )


def report(main_results: Results, growth: Results, memory: Results) -> str:
    """The report in Markdown. The arguments are the results of the sub-commands `main`, `growth` and `memory`.

    The CPU time per row of plan `adopt` is that of the largest date that was measured, because the time per row is
    longer once the fingerprint buckets of a date exceed the processor's cache, as they do at full size.
    """
    measured, largest = measured_per_row(main_results), max(memory.of(ADOPT), key=lambda one: one.rows)
    model = FullSize(Assumptions(), replace(measured, adopt_cpu_s=largest.cpu_s / largest.rows))
    parts = (
        _sizes(model, largest.rows),
        _executors(model),
        _prices(model),
        _check(measured, growth),
        _assumptions(model),
    )
    return "\n\n".join(parts)


def _sizes(model: FullSize, largest_date_rows: int) -> str:
    measured, terabyte = model.measured, 1e12
    facts = [
        ["rows of one snapshot", f"{model.rows:.3g}"],
        [
            f"CPU time of adopt, measured on one date of {largest_date_rows:,} rows",
            f"{measured.adopt_cpu_s * 1e9:.0f} ns per row, {model.cpu_hours:.1f} core-hours",
        ],
        [
            "CPU time of Spark ROW_NUMBER",
            f"{measured.row_number_cpu_s * 1e9:.0f} ns per row, "
            f"{model.rows * measured.row_number_cpu_s / _HOUR_S:.0f} core-hours",
        ],
        [
            "bytes read by adopt",
            f"{measured.adopt_read_bytes:.2f} per row, {model.rows * measured.adopt_read_bytes / terabyte:.2f} TB",
        ],
        ["bytes shuffled by adopt", f"{model.rows * measured.adopt_shuffled_bytes / terabyte:.2f} TB"],
        [
            "bytes shuffled by Spark ROW_NUMBER",
            f"{model.rows * measured.row_number_shuffled_bytes / terabyte:.1f} TB",
        ],
        ["time of one date on one vCPU", f"{model.seconds_per_date():.0f} s"],
        ["Cloud Storage operations", f"{model.writes:,.0f} Class A, {model.reads:,.0f} Class B"],
    ]
    return table(["15 TB, 730 dates, one publish", ""], facts)


def _executors(model: FullSize) -> str:
    rows = [
        [
            str(count),
            f"{count * model.assumed.vcpus_per_executor}",
            f"{model.wall_s(count) / 60:.1f}",
            f"{model.spark_usd(count):.2f}",
            f"{model.storage_usd:.2f}",
            f"{(model.spark_usd(count) + model.storage_usd) * model.assumed.publishes_per_day:.2f}",
        ]
        for count in _EXECUTOR_COUNTS
    ]
    heads = [
        "executors",
        "vCPUs",
        "minutes",
        "DCUs, USD",
        "Cloud Storage operations, USD",
        f"USD per day, {model.assumed.publishes_per_day} publishes",
    ]
    return table(heads, rows)


def _prices(model: FullSize) -> str:
    least, most = model.slots_usd(model.measured.qualify_cpu_s), model.slots_usd(model.measured.row_number_cpu_s)
    merge_ratio = model.assumed.merge_to_qualify_slot_ratio
    adopt_usd = model.spark_usd(_COMPARED_EXECUTORS) + model.storage_usd
    table_bytes, row_bytes, rows_held = model.assumed.table_bytes, model.assumed.row_bytes, model.rows
    merged = merge_input_of_rows(PRODUCTS, row_bytes, delivered=rows_held, held=rows_held)
    qualify_usd = model.on_demand_usd(merged.qualify_bytes_billed / table_bytes)
    merge_usd = model.on_demand_usd(merged.merge_bytes_billed / table_bytes)
    rows = [
        [f"adopt on Spark Serverless, {_COMPARED_EXECUTORS} executors", f"{adopt_usd:.2f}", ""],
        ["QUALIFY", f"{qualify_usd:.0f}", f"{least:.0f} to {most:.0f}"],
        ["MERGE", f"{merge_usd:.0f}", f"{least * merge_ratio:.0f} to {most * merge_ratio:.0f}"],
    ]
    text = (
        "The lower price by slots assumes DuckDB's CPU time for QUALIFY on the same rows, the higher one Spark's for "
        "ROW_NUMBER, because the CPU time of BigQuery's own engine was not measured."
    )
    return f"{table(['USD per publish', 'on demand', 'by slots'], rows)}\n\n{text}"


def _check(main_measured: MeasuredPerRow, growth: Results) -> str:
    """A table that checks the model on smaller data sets: the CPU seconds of `adopt` as predicted and as measured."""
    rows = []
    for dataset in dict.fromkeys(one.inputs for one in growth.of(ROW_NUMBER)):
        adopt: list[Figure] = growth.of(ADOPT, dataset)
        predicted_s, measured_s = adopt[0].rows * main_measured.adopt_cpu_s, cpu(adopt)
        ratio = measured_s / predicted_s
        rows.append([f"{adopt[0].rows:,}", f"{predicted_s:.2f}", f"{measured_s:.2f}", f"{ratio:.2f}"])
    heads = ["smaller data sets: rows of the snapshot", "CPU s predicted", "CPU s measured", "measured / predicted"]
    return table(heads, rows)


def _assumptions(model: FullSize) -> str:
    rows = [
        [f"`{one.name}`", f"{getattr(model.assumed, one.name):g}", REASONS[one.name]] for one in fields(model.assumed)
    ]
    return table(["assumption", "value", "reason"], rows)
