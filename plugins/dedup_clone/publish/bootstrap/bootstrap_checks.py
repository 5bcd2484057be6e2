"""Checks of a bootstrap or rebuild: staging holds the existing table's rows, and nobody changed the table meanwhile."""

from __future__ import annotations

from datetime import date
from typing import Any

from dedup_clone.checks.check_result import CheckResult, make_result
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import TableContract
from dedup_clone.publish.attempt_jobs import query_configuration, run_step_job
from dedup_clone.publish.bootstrap.existing_table import BootstrapRecord, ExistingTable, existing_table_names
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import PartitionFingerprint
from dedup_clone.warehouse.sql_files import TableNames

# The statement that computes the fingerprint of one partition. The order of the rows does not change a fingerprint.
FINGERPRINT_SQL_FILE = "checks/content_audit.sql"


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


def comparison_bytes(services: Services, names: TableNames, table: TableContract, days: list[date]) -> int:
    """The bytes that queries would read to compare `days` of an existing table with staging, estimated by dry runs.

    Staging is not loaded yet, so its partitions are taken to be as large as the table's. `names`: names with the
    existing table as target. `table`: the columns that the existing table has now.
    """
    configurations = [_fingerprint_query(services, names, table, day) for day in days]
    return 2 * sum(services.warehouse.jobs.dry_run_bytes(configuration) for configuration in configurations)


def _fingerprint_query(services: Services, names: TableNames, table: TableContract, day: date) -> dict[str, Any]:
    """The query that computes the fingerprint of one partition of the target table of `names`."""
    sql = services.warehouse.render(FINGERPRINT_SQL_FILE, names=names, table=table)
    return query_configuration(services, "compare", sql, {"audited_date": ("DATE", day.isoformat())})


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
    staging_names = TableNames(
        services.names.project, services.names.dataset, services.feed.staging, services.feed.staging
    )
    existing_names, wrong = existing_table_names(services, record.existing), []
    for day in days:
        expected = _fingerprint(services, attempt, f"compare_{day:%Y%m%d}_existing", existing_names, day)
        found = _fingerprint(services, attempt, f"compare_{day:%Y%m%d}_staging", staging_names, day)
        if found != expected:
            wrong.append(f"{day}: {found}, expected {expected}")
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


def _fingerprint(services: Services, attempt: str, step: str, names: TableNames, day: date) -> PartitionFingerprint:
    configuration = _fingerprint_query(services, names, services.feed.table.to_contract(), day)
    job = run_step_job(services, attempt, step, configuration)
    (row,) = services.warehouse.jobs.rows(job.job_id)
    return PartitionFingerprint(int(row["row_count"]), int(row["exclusive_or"]), int(row["total"]))


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
