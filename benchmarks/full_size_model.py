"""Prices one publish of a table of 15 TB and 730 dates (sub-command `model`).

Executors and minutes are those of the sizing model, by which each publish is sized too; module `rate_checks` compares
its rates with what the other sub-commands measured. Every value that was neither measured nor is part of that model is
a field of `Assumptions`; docs/costs.md lists these with their reasons.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from benchmarks.docs_tables import table
from benchmarks.peers.registry import ADOPT, ROW_NUMBER
from benchmarks.rate_checks import RateCheck, rate_checks
from benchmarks.results import Results, cpu, median
from dedup_clone.contract.billing import TIB, USD_PER_SLOT_HOUR, USD_PER_TIB
from dedup_clone.orchestration.runners.sizing import (
    VCPUS_PER_CORE,
    RunSize,
    core_seconds,
    size_run,
)
from dedup_clone.orchestration.runners.workload import Method, Workload
from dedup_clone.publish.records.publish_costs import merge_input_of_rows
from dedup_clone.settings.spark_settings import Runner, SparkSize
from testkit.table_contracts import PRODUCTS

_QUALIFY, _COPY = "duckdb-qualify", "spark-copy"
_EXECUTOR_COUNTS = (25, 50, 71, 100)
_HOUR_S = 3600
_NS = 1e9
_UNBOUNDED = 2000  # executors, the most that a feed may allow


@dataclass(frozen=True)
class Assumptions:
    """The values that were not measured. Names end with their units. REASONS explains each value."""

    table_bytes: float = 15e12
    row_bytes: float = 48
    dates: int = 730
    publishes_per_day: int = 6
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
    "table_bytes": "the logical size of the table",
    "row_bytes": "six columns of eight bytes each, as in the measured run of the reference method",
    "dates": "two years",
    "publishes_per_day": "one per delivery",
    "dcus_per_vcpu": "Google's definition of a DCU",
    "dcus_per_gb": "Google's definition of a DCU; each vCPU of executors and driver has 3 GB by default",
    "usd_per_dcu_hour": "the price of the standard tier",
    "delivered_file_bytes": "the compressed size of one delivered file",
    "reads_per_file": "one for the footer and the others for column chunks of row groups with a million rows",
    "writes_per_file": "one server-side copy, which sends no bytes through the job",
    "requests_per_date": "one each for survivors, fingerprints and a listing; counted as writes and as reads",
    "usd_per_thousand_writes": "the price of Class A operations",
    "usd_per_thousand_reads": "the price of Class B operations",
    "merge_to_qualify_slot_ratio": "MERGE used twice the slots of QUALIFY in the measured run of the reference method",
    "group_by_to_qualify_slot_ratio": "GROUP BY was as slow as MERGE in that run",
}


@dataclass(frozen=True)
class MeasuredPerRow:
    """CPU seconds and bytes per row of the snapshot: medians of the measured runs of a peer, divided by the rows."""

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

    def workload(self, deliveries: int = 1, method: Method = Method.ADOPT) -> Workload:
        rows = round(self.rows)
        delivered_bytes = round(self.assumed.table_bytes) * deliveries
        return Workload(deliveries, delivered_bytes, rows, rows * (deliveries - 1), rows, self.assumed.dates, method)

    def spark_usd(self, size: RunSize) -> float:
        """The price of the executors and the driver for the job's wall time."""
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

    def slot_hours(self, cpu_s_per_row: float) -> float:
        """The slot time of a query, if a slot needs as long as a vCPU with the engine whose time is given."""
        return self.rows * cpu_s_per_row * VCPUS_PER_CORE / _HOUR_S


def measured_per_row(results: Results) -> MeasuredPerRow:
    """The values per row from the results of sub-command `main`. Raises StatisticsError when a peer is missing."""

    def per_row(peer: str, value: float) -> float:
        return value / results.of(peer)[0].rows

    adopt, row_number = results.of(ADOPT), results.of(ROW_NUMBER)
    # This peer writes the snapshot and nothing else, so its bytes are those of the snapshot's files.
    copied_bytes = median(results.of(_COPY), lambda one: one.written_bytes)
    return MeasuredPerRow(
        adopt_read_bytes=per_row(ADOPT, median(adopt, lambda one: one.read_bytes or 0)),
        adopt_shuffled_bytes=per_row(ADOPT, median(adopt, lambda one: one.shuffled_bytes)),
        row_number_cpu_s=per_row(ROW_NUMBER, cpu(row_number)),
        row_number_shuffled_bytes=per_row(ROW_NUMBER, median(row_number, lambda one: one.shuffled_bytes)),
        qualify_cpu_s=per_row(_QUALIFY, cpu(results.of(_QUALIFY))),
        snapshot_file_bytes=per_row(_COPY, copied_bytes),
    )


def report(main_results: Results, growth_results: Results, memory: Results) -> str:
    """The report in Markdown. The arguments are the results of the sub-commands `main`, `growth` and `memory`."""
    model = FullSize(Assumptions(), measured_per_row(main_results))
    parts = (
        _sizes(model),
        _executors(model),
        _deliveries(model),
        _prices(model),
        _rates(rate_checks(main_results, growth_results, memory)),
        _assumptions(model),
    )
    return "\n\n".join(parts)


def _sizes(model: FullSize) -> str:
    measured, terabyte = model.measured, 1e12
    adopt_hours = core_seconds(model.workload()) / _HOUR_S
    facts = [
        ["rows of one snapshot", f"{model.rows:.3g}"],
        ["time of adopt", f"{adopt_hours:.1f} vCPU-hours"],
        [
            "CPU time of Spark ROW_NUMBER",
            f"{measured.row_number_cpu_s * _NS:.0f} ns per row, "
            f"{model.rows * measured.row_number_cpu_s * VCPUS_PER_CORE / _HOUR_S:.0f} vCPU-hours",
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
        ["Cloud Storage operations", f"{model.writes:,.0f} Class A, {model.reads:,.0f} Class B"],
    ]
    return table(["15 TB, 730 dates, one publish", ""], facts)


def _executors(model: FullSize) -> str:
    rows = []
    for count in _EXECUTOR_COUNTS:
        size = size_run(model.workload(), SparkSize(executors=count), Runner.SERVERLESS)
        usd = model.spark_usd(size)
        rows.append(
            [
                str(count),
                str(size.cores),
                f"{size.expected_minutes:.1f}",
                f"{usd:.2f}",
                f"{model.storage_usd:.2f}",
                f"{(usd + model.storage_usd) * model.assumed.publishes_per_day:.2f}",
            ]
        )
    heads = [
        "executors",
        "vCPUs",
        "minutes",
        "DCUs, USD",
        "Cloud Storage operations, USD",
        f"USD per day, {model.assumed.publishes_per_day} publishes",
    ]
    return table(heads, rows)


def _deliveries(model: FullSize) -> str:
    """A table of what else may wait than one delivery in order."""
    cases = (
        ("one delivery in order, or a correction", model.workload()),
        ("backlog of 2", model.workload(2)),
        ("backlog of 6", model.workload(6)),
        ("late snapshot", model.workload(method=Method.LATE)),
        ("one delivery, `dedup.exact`", model.workload(method=Method.ADOPT_EXACTLY)),
        ("one delivery, all dates rewritten", model.workload(method=Method.REWRITE)),
        ("one delivery, all dates joined by Spark", model.workload(method=Method.JOIN)),
    )
    rows = []
    for title, workload in cases:
        usual, enough = (
            size_run(workload, SparkSize(max_executors=most), Runner.SERVERLESS)
            for most in (SparkSize().max_executors, _UNBOUNDED)
        )
        rows.append(
            [
                title,
                f"{usual.core_seconds / _HOUR_S:.0f}",
                str(usual.executors),
                f"{usual.expected_minutes:.1f}",
                f"{model.spark_usd(usual):.2f}",
                f"{enough.executors} ({enough.expected_minutes:.1f} minutes)",
            ]
        )
    heads = ["what is published", "vCPU-hours", "executors, at most 100", "minutes", "DCUs, USD", "without that bound"]
    return table(heads, rows)


def _prices(model: FullSize) -> str:
    least, most = (model.slot_hours(cpu_s) for cpu_s in (model.measured.qualify_cpu_s, model.measured.row_number_cpu_s))
    size = size_run(model.workload(), SparkSize(), Runner.SERVERLESS)
    adopt_usd = model.spark_usd(size) + model.storage_usd
    table_bytes, row_bytes, rows_held = model.assumed.table_bytes, model.assumed.row_bytes, model.rows
    merged = merge_input_of_rows(PRODUCTS, row_bytes, delivered=rows_held, held=rows_held)
    statements = (
        ("`bigquery`, form `qualify`", merged.qualify_bytes_billed, 1),
        ("`bigquery`, form `row_number`", merged.qualify_bytes_billed, 1),
        ("`bigquery`, form `group_by`", merged.qualify_bytes_billed, model.assumed.group_by_to_qualify_slot_ratio),
        ("`merge`", merged.merge_bytes_billed, model.assumed.merge_to_qualify_slot_ratio),
    )
    rows = [
        [f"adopt on Spark Serverless, {size.executors} executors", f"{adopt_usd:.2f}", *[""] * len(USD_PER_SLOT_HOUR)]
    ]
    for name, billed, ratio in statements:
        by_slots = [f"{least * ratio * usd:.0f} to {most * ratio * usd:.0f}" for usd in USD_PER_SLOT_HOUR.values()]
        rows.append([name, f"{model.on_demand_usd(billed / table_bytes):.0f}", *by_slots])
    editions = [f"slots, {edition} ({usd:.2f} an hour)" for edition, usd in USD_PER_SLOT_HOUR.items()]
    text = (
        "The lower price by slots assumes DuckDB's CPU time for QUALIFY on the same rows, the higher one Spark's for "
        "ROW_NUMBER, because the CPU time of BigQuery's own engine was not measured. The statement alone is priced, "
        "without examination and counts."
    )
    return f"{table(['USD per publish', 'on demand', *editions], rows)}\n\n{text}"


def _rates(checks: list[RateCheck]) -> str:
    rows = [
        [one.what, f"{one.model * _NS:.0f}", f"{one.measured * _NS:.0f}", f"{one.measured / one.model:.2f}"]
        for one in checks
    ]
    return table(["vCPU ns per row", "sizing model", "measured", "measured / model"], rows)


def _assumptions(model: FullSize) -> str:
    rows = [
        [f"`{one.name}`", f"{getattr(model.assumed, one.name):g}", REASONS[one.name]] for one in fields(model.assumed)
    ]
    return table(["assumption", "value", "reason"], rows)
