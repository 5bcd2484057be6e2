"""A model of the full size, 15 TB in 730 dates: pure arithmetic from measured seconds and bytes a row.

Everything that is not measured is an assumption with a name and a reason, listed beside the table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

from benchmarks.document import table
from benchmarks.peers.registry import BASE, IN_TASKS, OURS
from benchmarks.results import Figure, Results, cpu, middle
from dedup_clone.publish.costs import MERGE_READS, QUALIFY_READS, TIB, USD_PER_TIB

_DUCKDB = "duckdb-qualify"
_EXECUTORS = (8, 16, 25, 50, 100)
_HOUR_S = 3600


@dataclass(frozen=True)
class Assumptions:
    """What is not measured. Times in seconds, sizes in bytes, prices in USD; `reasons` says where each is from."""

    table_bytes: float = 15e12
    row_bytes: float = 48
    dates: int = 730
    publishes_a_day: int = 6
    vcpus_a_core: float = 2
    utilisation: float = 0.8
    vcpus_an_executor: int = 4
    dcus_an_executor: float = 4.0
    usd_a_dcu_hour: float = 0.06
    start_s: float = 90
    bytes_a_second_and_vcpu: float = 50e6
    file_bytes: float = 256e6
    reads_a_file: float = 40
    writes_a_file: float = 1
    objects_a_date: float = 3
    usd_a_thousand_writes: float = 0.005
    usd_a_thousand_reads: float = 0.0004
    usd_a_slot_hour: float = 0.06
    merge_slots_times_qualify: float = 2


REASONS = {
    "table_bytes": "logical size of the table",
    "row_bytes": "six columns of eight bytes, as in the published run",
    "dates": "two years",
    "publishes_a_day": "deliveries",
    "vcpus_a_core": "a vCPU is one of two threads of a core: taken as half as fast as the cores measured here",
    "utilisation": "share of the executors' time that tasks use: the last round of tasks does not fill them all",
    "vcpus_an_executor": "4 cores and 16 GB; so has the driver",
    "dcus_an_executor": "0.6 for each vCPU and 0.1 for each GB",
    "usd_a_dcu_hour": "standard tier",
    "start_s": "a Serverless batch until its first task, not measured here",
    "bytes_a_second_and_vcpu": "read from Cloud Storage; well below what its machines are sold with",
    "file_bytes": "compressed size of a delivered file",
    "reads_a_file": "requests: the footer, and column chunks of row groups of a million rows, near ones in one request",
    "writes_a_file": "one rewrite, which moves no bytes",
    "objects_a_date": "survivors, fingerprints, a listing",
    "usd_a_thousand_writes": "Class A operations",
    "usd_a_thousand_reads": "Class B operations",
    "usd_a_slot_hour": "Enterprise edition",
    "merge_slots_times_qualify": "as the published run measured",
}


@dataclass(frozen=True)
class Measured:
    """For each row of the snapshot: core seconds of each method, bytes that adopt reads, bytes ROW_NUMBER shuffles."""

    adopt_core_s: float
    adopt_read_bytes: float
    adopt_shuffled_bytes: float
    row_number_core_s: float
    row_number_shuffled_bytes: float
    qualify_core_s: float
    file_bytes: float


@dataclass(frozen=True)
class FullSize:
    """What follows from both."""

    assumed: Assumptions
    measured: Measured

    @property
    def rows(self) -> float:
        return self.assumed.table_bytes / self.assumed.row_bytes

    @property
    def core_hours(self) -> float:
        return self.rows * self.measured.adopt_core_s / _HOUR_S

    def date_s(self) -> float:
        """One task on one vCPU: as long as decoding takes, or reading, whichever is longer."""
        rows = self.rows / self.assumed.dates
        computing = rows * self.measured.adopt_core_s * self.assumed.vcpus_a_core
        reading = rows * self.measured.adopt_read_bytes / self.assumed.bytes_a_second_and_vcpu
        return max(computing, reading)

    def wall_s(self, executors: int) -> float:
        vcpus = executors * self.assumed.vcpus_an_executor
        together = self.assumed.dates * self.date_s() / (vcpus * self.assumed.utilisation)
        return self.assumed.start_s + max(self.date_s() * math.ceil(self.assumed.dates / vcpus), together)

    def spark_usd(self, executors: int) -> float:
        """Executors and a driver of the same size, from start to end."""
        dcus = (executors + 1) * self.assumed.dcus_an_executor
        return dcus * self.wall_s(executors) / _HOUR_S * self.assumed.usd_a_dcu_hour

    @property
    def files(self) -> float:
        """Of one snapshot."""
        date_bytes = self.rows / self.assumed.dates * self.measured.file_bytes
        return self.assumed.dates * math.ceil(date_bytes / self.assumed.file_bytes)

    @property
    def writes(self) -> float:
        return self.files * self.assumed.writes_a_file + self.assumed.dates * self.assumed.objects_a_date

    @property
    def reads(self) -> float:
        return self.files * self.assumed.reads_a_file + self.assumed.dates * self.assumed.objects_a_date

    @property
    def storage_usd(self) -> float:
        writes = self.writes * self.assumed.usd_a_thousand_writes
        return (writes + self.reads * self.assumed.usd_a_thousand_reads) / 1000

    def on_demand_usd(self, times_the_table: float) -> float:
        return times_the_table * self.assumed.table_bytes / TIB * USD_PER_TIB

    def slots_usd(self, core_s_a_row: float) -> float:
        """A slot is taken as a vCPU that needs as long as the engine measured here."""
        slot_hours = self.rows * core_s_a_row * self.assumed.vcpus_a_core / _HOUR_S
        return slot_hours * self.assumed.usd_a_slot_hour


def measured_by(results: Results) -> Measured:
    """Raises StatisticsError when a needed peer is missing."""

    def a_row(peer: str, value: float) -> float:
        return value / results.of(peer)[0].rows

    ours, base = results.of(OURS), results.of(BASE)
    copied = middle(results.of("spark-copy"), lambda one: one.written_bytes)
    return Measured(
        adopt_core_s=a_row(OURS, cpu(ours)),
        adopt_read_bytes=a_row(OURS, middle(ours, lambda one: one.read_bytes or 0)),
        adopt_shuffled_bytes=a_row(OURS, middle(ours, lambda one: one.shuffled_bytes)),
        row_number_core_s=a_row(BASE, cpu(base)),
        row_number_shuffled_bytes=a_row(BASE, middle(base, lambda one: one.shuffled_bytes)),
        qualify_core_s=a_row(_DUCKDB, cpu(results.of(_DUCKDB))),
        file_bytes=a_row("spark-copy", copied),
    )


def report(main: Results, growth: Results, memory: Results) -> str:
    """A large date's buckets leave the processor's cache: the full size takes as long a row as the largest date did."""
    measured, largest = measured_by(main), max(memory.of(IN_TASKS), key=lambda one: one.rows)
    model = FullSize(Assumptions(), replace(measured, adopt_core_s=largest.cpu_s / largest.rows))
    parts = (
        _sizes(model, largest.rows),
        _executors(model),
        _prices(model),
        _check(measured, growth),
        _assumptions(model),
    )
    return "\n\n".join(parts)


def _sizes(model: FullSize, large_date_rows: int) -> str:
    measured, terabyte = model.measured, 1e12
    facts = [
        ["rows of one snapshot", f"{model.rows:.3g}"],
        [
            f"core time of adopt, as measured on one date of {large_date_rows:,} rows",
            f"{measured.adopt_core_s * 1e9:.0f} ns a row, {model.core_hours:.1f} core-hours",
        ],
        [
            "core time of Spark ROW_NUMBER",
            f"{measured.row_number_core_s * 1e9:.0f} ns a row, "
            f"{model.rows * measured.row_number_core_s / _HOUR_S:.0f} core-hours",
        ],
        [
            "bytes read by adopt",
            f"{measured.adopt_read_bytes:.2f} a row, {model.rows * measured.adopt_read_bytes / terabyte:.2f} TB",
        ],
        ["bytes shuffled by adopt", f"{model.rows * measured.adopt_shuffled_bytes / terabyte:.2f} TB"],
        [
            "bytes shuffled by Spark ROW_NUMBER",
            f"{model.rows * measured.row_number_shuffled_bytes / terabyte:.1f} TB",
        ],
        ["one date on one vCPU", f"{model.date_s():.0f} s"],
        ["Cloud Storage operations", f"{model.writes:,.0f} Class A, {model.reads:,.0f} Class B"],
    ]
    return table(["15 TB, 730 dates, one publish", ""], facts)


def _executors(model: FullSize) -> str:
    rows = [
        [
            str(count),
            f"{count * model.assumed.vcpus_an_executor}",
            f"{model.wall_s(count) / 60:.1f}",
            f"{model.spark_usd(count):.2f}",
            f"{model.storage_usd:.2f}",
            f"{(model.spark_usd(count) + model.storage_usd) * model.assumed.publishes_a_day:.2f}",
        ]
        for count in _EXECUTORS
    ]
    heads = ["executors", "vCPUs", "minutes", "DCUs, USD", "Cloud Storage operations, USD", "USD a day, six publishes"]
    return table(heads, rows)


def _prices(model: FullSize) -> str:
    least, most = model.slots_usd(model.measured.qualify_core_s), model.slots_usd(model.measured.row_number_core_s)
    times = model.assumed.merge_slots_times_qualify
    ours = model.spark_usd(_EXECUTORS[2]) + model.storage_usd
    rows = [
        ["adopt on Spark Serverless, 25 executors", f"{ours:.2f}", ""],
        ["QUALIFY", f"{model.on_demand_usd(QUALIFY_READS):.0f}", f"{least:.0f} to {most:.0f}"],
        ["MERGE", f"{model.on_demand_usd(MERGE_READS):.0f}", f"{least * times:.0f} to {most * times:.0f}"],
    ]
    text = (
        "By slots the least is DuckDB's CPU time for QUALIFY on the same rows, the most Spark's for ROW_NUMBER: what "
        "BigQuery's own engine needs was not measured."
    )
    return f"{table(['USD a publish', 'on demand', 'by slots'], rows)}\n\n{text}"


def _check(measured_main: Measured, growth: Results) -> str:
    """Core seconds at smaller sizes, as the main table's rate has them, beside the measured ones."""
    rows = []
    for name in dict.fromkeys(one.inputs for one in growth.of(BASE)):
        measured: list[Figure] = growth.of(OURS, name)
        predicted = measured[0].rows * measured_main.adopt_core_s
        found = cpu(measured)
        rows.append([f"{measured[0].rows:,}", f"{predicted:.2f}", f"{found:.2f}", f"{found / predicted:.2f}"])
    heads = ["checked at smaller sizes: rows a side", "core s predicted", "core s measured", "measured / predicted"]
    return table(heads, rows)


def _assumptions(model: FullSize) -> str:
    rows = [
        [f"`{one.name}`", f"{getattr(model.assumed, one.name):g}", REASONS[one.name]] for one in fields(model.assumed)
    ]
    return table(["assumption", "value", "why"], rows)
