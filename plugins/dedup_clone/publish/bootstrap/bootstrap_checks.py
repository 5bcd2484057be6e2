"""Checks of a bootstrap or rebuild: staging holds the existing table's rows, and nobody changed the table meanwhile."""

from __future__ import annotations

from datetime import date

from dedup_clone.checks.check_result import CheckResult, make_result
from dedup_clone.contract.manifest import Manifest
from dedup_clone.publish.attempt_jobs import run_step_job
from dedup_clone.publish.bootstrap.existing_table import BootstrapRecord, ExistingTable, existing_table_names
from dedup_clone.publish.partition_comparison import compare_with_table, read_comparison
from dedup_clone.publish.services import Services
from dedup_clone.warehouse.sql_files import TableNames


def check_existing_table(
    services: Services, attempt: str, record: BootstrapRecord, manifest: Manifest
) -> list[CheckResult]:
    """Compare the existing table with the new generation, and check that nobody changed the table.

    The row counts of all partitions are compared with the manifest, and all columns of some partitions with staging.
    Raises what `run_step_job` raises.
    """
    return [
        _rows_equal(record.existing, manifest),
        _contents_equal(services, attempt, record, manifest),
        _unchanged(services, record.existing),
    ]


def evenly_spaced(days: list[date], count: int) -> list[date]:
    """Choose `count` of the days at even distances; all days if there are fewer.

    The first day is among them and, if `count` is above 1, the last.
    """
    if count >= len(days) or count < 1:
        return days if count else []
    return [days[round(index * (len(days) - 1) / max(count - 1, 1))] for index in range(count)]


def _rows_equal(existing: ExistingTable, manifest: Manifest) -> CheckResult:
    expected = {partition.date: partition.rows for partition in existing.partitions}
    found = {entry.date: entry.rows + entry.ties for entry in manifest.dates}
    wrong = [day for day in sorted({*expected, *found}) if expected.get(day) != found.get(day)]
    named = "; ".join(f"{day}: {found.get(day, 0)} rows, expected {expected.get(day, 0)}" for day in wrong[:5])
    surplus = sum(entry.ties for entry in manifest.dates)
    return make_result(
        "existing_rows",
        not wrong,
        found=named or f"equal{f'; {surplus} rows with a repeated key were left out' if surplus else ''}",
        expected=f"{existing.rows} rows in {len(expected)} dates as in {existing.name}",
        next_step="clear the run from its first task, which exports the table anew.",
    )


def _contents_equal(services: Services, attempt: str, record: BootstrapRecord, manifest: Manifest) -> CheckResult:
    without_duplicates = [entry.date for entry in manifest.dates if not entry.ties]
    days = evenly_spaced(without_duplicates, record.compared_dates)
    # The query reads the target table of the names that it is given, so these names have staging as target.
    names = TableNames(services.names.project, services.names.dataset, services.feed.staging, services.feed.staging)
    expected, wrong = existing_table_names(services, record.existing).target, []
    for day in days:
        query = compare_with_table(services, names, day, expected)
        job = run_step_job(services, attempt, f"compare_{day:%Y%m%d}", query)
        comparison = read_comparison(services, job.job_id)
        if not comparison.is_equal:
            wrong.append(f"{day}: {comparison.difference}")
    return make_result(
        "existing_contents",
        not wrong,
        found="; ".join(wrong[:3]) or f"equal on {len(days)} dates: {', '.join(map(str, days[:5])) or 'none compared'}",
        expected=f"staging has the rows of {record.existing.name}",
        next_step=(
            "clear the run from its first task. If the check fails again although nobody changed the table, report it "
            "as a bug of this project."
        ),
    )


def _unchanged(services: Services, existing: ExistingTable) -> CheckResult:
    table = services.warehouse.with_dataset(existing.dataset).table(existing.table)
    version = "gone" if table is None else table.version
    return make_result(
        "existing_unchanged",
        version == existing.version,
        found=version,
        expected=existing.version,
        next_step=f"stop whatever writes {existing.name}, then trigger the DAG again.",
    )
