"""Makes the tables of sub-command `model`: sizes, executors, prices and assumptions of one publish of 15 TB.

The tables are in docs/costs.md. Tests compare the numbers in all other pages with them.
"""

from __future__ import annotations

from dataclasses import fields

from benchmarks.docs_tables import table
from benchmarks.full_size_model import HOUR_S, REASONS, Assumptions, FullSize, measured_per_row
from benchmarks.rate_checks import RateCheck, check_rates
from benchmarks.results import Results
from dedup_clone.contract.billing import TIB, USD_PER_SLOT_HOUR
from dedup_clone.contract.engine import Engine
from dedup_clone.orchestration.runners.sizing import VCPUS_PER_CORE, size_run, vcpu_seconds
from dedup_clone.orchestration.runners.workload import Method
from dedup_clone.publish.records.publish_costs import expected_cost, merge_input_of_rows
from dedup_clone.settings.spark_settings import Runner, SparkSize
from testkit.table_contracts import PRODUCTS

_EXECUTOR_COUNTS = (25, 50, 71, 100)
_NS_PER_S = 1e9
_MOST_EXECUTORS = 2000  # the highest bound that a feed file may set
# The bytes that dbt reads, as a multiple of the table's, as `python -m benchmarks.engine_costs` measures them.
_DBT_TABLE_MULTIPLES = {
    "incremental `merge`": 2.66,
    "`insert_overwrite` of given dates": 3.00,
    "`insert_overwrite`, dates found": 4.16,
}


def prices(main_results: Results) -> str:
    """The prices of a publish with each engine, and of the usual statements, in Markdown."""
    model = FullSize(Assumptions(), measured_per_row(main_results))
    rows, row_bytes = model.rows, model.assumed.row_bytes
    billed_input = merge_input_of_rows(PRODUCTS, row_bytes, delivered=rows, existing=rows)
    adopted, rewritten = (_publish_usd(model, method) for method in (Method.ADOPT, Method.REWRITE))

    def table_multiple(billed: float) -> float:
        return billed / model.assumed.table_bytes

    def engine_multiple(engine: Engine) -> float:
        cost = expected_cost(engine, PRODUCTS, row_bytes, delivered=rows, existing=rows)
        return table_multiple(cost.query_bytes_billed)

    # For each line: its name, how many times the table's size is read, and the price of a publish in USD.
    lines = [
        ("`spark`, dates adopted", 0.0, adopted),
        ("`spark`, dates rewritten", 0.0, rewritten),
        ("`cdc`, dates rewritten", 1.0, rewritten + model.stream_usd),
        *(
            (name, multiple, model.on_demand_usd(multiple))
            for name, multiple in {
                "QUALIFY alone, as published": table_multiple(billed_input.qualify_bytes_billed),
                "MERGE alone": table_multiple(billed_input.merge_bytes_billed),
                **{f"dbt, {model_of_dbt}": multiple for model_of_dbt, multiple in _DBT_TABLE_MULTIPLES.items()},
                "`bigquery` with examination and counts": engine_multiple(Engine.BIGQUERY),
                "`merge` with examination and counts": engine_multiple(Engine.MERGE),
            }.items()
        ),
    ]
    a_day = model.assumed.publishes_per_day
    heads = ["", "times the table", "USD a publish", "USD a day", "TiB a day (default quota: 200)"]
    return table(
        heads,
        [
            [
                name,
                f"{multiple:.2f}",
                _usd(usd),
                _usd(usd * a_day),
                f"{multiple * model.assumed.table_bytes / TIB * a_day:.0f}",
            ]
            for name, multiple, usd in lines
        ],
    )


def _usd(usd: float) -> str:
    return f"{usd:.2f}" if usd < 50 else f"{usd:,.0f}"


def _publish_usd(model: FullSize, method: Method) -> float:
    workload = model.workload(method=method)
    return model.publish_usd(workload, size_run(workload, SparkSize(), Runner.SERVERLESS))


def report(main_results: Results, growth_results: Results, memory: Results) -> str:
    """The report in Markdown. The arguments are the results of the sub-commands `main`, `growth` and `memory`."""
    model = FullSize(Assumptions(), measured_per_row(main_results))
    parts = (
        _sizes(model),
        _executors(model),
        _deliveries(model),
        _statement_prices(model),
        _rates(check_rates(main_results, growth_results, memory)),
        _assumptions(model),
    )
    return "\n\n".join(parts)


def _sizes(model: FullSize) -> str:
    measured, terabyte = model.measured, 1e12
    adopt_hours = vcpu_seconds(model.workload()) / HOUR_S
    facts = [
        ["rows of one snapshot", f"{model.rows:.3g}"],
        ["time of adopt, by the sizing model", f"{adopt_hours:.1f} vCPU-hours"],
        [
            "time of Spark ROW_NUMBER, as measured",
            f"{measured.row_number_cpu_s * _NS_PER_S:.0f} CPU ns per row of the snapshot, "
            f"{model.rows * measured.row_number_cpu_s * VCPUS_PER_CORE / HOUR_S:.0f} vCPU-hours",
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
        ["Cloud Storage operations", f"{model.writes:,.0f} Class A, {model.reads(model.workload()):,.0f} Class B"],
    ]
    return table(["15 TB, 730 dates, one publish", ""], facts)


def _executors(model: FullSize) -> str:
    rows = []
    workload = model.workload()
    for count in _EXECUTOR_COUNTS:
        size = size_run(workload, SparkSize(executors=count), Runner.SERVERLESS)
        usd = model.publish_usd(workload, size)
        rows.append(
            [
                str(count),
                str(size.cores),
                f"{size.expected_minutes:.1f}",
                f"{model.spark_usd(size):.2f}",
                f"{model.operations_usd(workload):.2f}",
                f"{usd:.2f}",
            ]
        )
    heads = [
        "executors",
        "vCPUs",
        "minutes",
        "DCUs, USD",
        "Cloud Storage operations, USD",
        "USD a publish",
    ]
    return table(heads, rows)


def _deliveries(model: FullSize) -> str:
    """A table of executors and prices by what a publish includes and by the plan of its dates."""
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
        bounded, unbounded = (
            size_run(workload, SparkSize(max_executors=most), Runner.SERVERLESS)
            for most in (SparkSize().max_executors, _MOST_EXECUTORS)
        )
        rows.append(
            [
                title,
                f"{bounded.vcpu_seconds / HOUR_S:.0f}",
                str(bounded.executors),
                f"{bounded.expected_minutes:.1f}",
                f"{model.publish_usd(workload, bounded):.2f}",
                str(unbounded.executors),
            ]
        )
    heads = [
        "what is published",
        "vCPU-hours",
        "executors, at most 100",
        "minutes",
        "USD a publish",
        "executors without that bound",
    ]
    return table(heads, rows)


def _statement_prices(model: FullSize) -> str:
    """The prices of one publish by adopt and of each engine's statement, on demand and in slots, in Markdown."""
    lowest, highest = map(model.slot_hours, (model.measured.qualify_cpu_s, model.measured.row_number_cpu_s))
    size = size_run(model.workload(), SparkSize(), Runner.SERVERLESS)
    table_bytes, row_bytes, table_rows = model.assumed.table_bytes, model.assumed.row_bytes, model.rows
    billed_input = merge_input_of_rows(PRODUCTS, row_bytes, delivered=table_rows, existing=table_rows)
    statements = (
        ("`bigquery`, form `qualify`", billed_input.qualify_bytes_billed, 1),
        ("`bigquery`, form `row_number`", billed_input.qualify_bytes_billed, 1),
        (
            "`bigquery`, form `group_by`",
            billed_input.qualify_bytes_billed,
            model.assumed.group_by_to_qualify_slot_ratio,
        ),
        ("`merge`", billed_input.merge_bytes_billed, model.assumed.merge_to_qualify_slot_ratio),
    )
    rows = [
        [
            f"adopt on Spark Serverless, {size.executors} executors",
            _usd(_publish_usd(model, Method.ADOPT)),
            *[""] * len(USD_PER_SLOT_HOUR),
        ]
    ]
    for name, billed, ratio in statements:
        by_slots = [f"{lowest * ratio * usd:.0f} to {highest * ratio * usd:.0f}" for usd in USD_PER_SLOT_HOUR.values()]
        rows.append([name, f"{model.on_demand_usd(billed / table_bytes):.0f}", *by_slots])
    editions = [f"slots, {edition} ({usd:.2f} an hour)" for edition, usd in USD_PER_SLOT_HOUR.items()]
    text = (
        "Of the statement alone. BigQuery's CPU time was not measured: the lower price by slots assumes DuckDB's for "
        "QUALIFY on the same rows, the higher one Spark's for ROW_NUMBER."
    )
    return f"{table(['USD a publish', 'on demand', *editions], rows)}\n\n{text}"


def _rates(checks: list[RateCheck]) -> str:
    rows = []
    for check in checks:
        model_ns, measured_ns = check.model * _NS_PER_S, check.measured * _NS_PER_S
        rows.append([check.name, f"{model_ns:.0f}", f"{measured_ns:.0f}", f"{measured_ns / model_ns:.2f}"])
    note = "\n\nMeasured on the largest date of the memory table, of other kinds in proportion; a vCPU is half a core."
    return table(["vCPU ns per row", "sizing model", "measured", "measured / model"], rows) + note


def _assumptions(model: FullSize) -> str:
    rows = [
        [f"`{field.name}`", f"{getattr(model.assumed, field.name):g}", REASONS[field.name]]
        for field in fields(model.assumed)
    ]
    return table(["assumption", "value", "reason"], rows)
