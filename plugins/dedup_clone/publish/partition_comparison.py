"""Compares a partition of a table, row by row and in BigQuery, with the rows that it should have."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date
from typing import Any

from dedup_clone.contract.table import TableContract
from dedup_clone.publish.attempt_jobs import external_table, query_configuration
from dedup_clone.publish.services import Services
from dedup_clone.state.audits import PartitionComparison
from dedup_clone.warehouse.row_sql import date_sql
from dedup_clone.warehouse.sql_files import TableNames

SQL_FILE = "audit/compare_partition.sql"
PUBLISHED_FILES = "dedup_clone_published"  # what the statement calls the external table of published files


def compare_with_files(services: Services, table: TableContract, day: date, uris: list[str]) -> dict[str, Any]:
    """The query that compares the partition `day` of target with the rows in these files."""
    sql = services.warehouse.render(SQL_FILE, names=services.names, table=table, expected="")
    definitions = external_table(PUBLISHED_FILES, uris)
    return query_configuration(services, "audit", sql, _parameters(day), tableDefinitions=definitions)


def compare_with_table(services: Services, names: TableNames, day: date, expected: str) -> dict[str, Any]:
    """The query that compares a partition of the target table of `names` with that of the table `expected` (quoted)."""
    table = services.feed.table.to_contract()
    sql = services.warehouse.render(SQL_FILE, names=names, table=table, expected=expected)
    return query_configuration(services, "compare", sql, _parameters(day))


def comparison_bytes(services: Services, table: TableContract, days: Iterable[date]) -> int:
    """The bytes that comparisons of `days` read: twice target's partitions, which dry runs (free of charge) tell.

    A comparison itself cannot be dry-run: BigQuery may count 0 bytes of files, and staging may not be loaded yet.
    """
    sql = f"SELECT * FROM {services.names.target} WHERE {date_sql(table)} = @compared_date"
    queries = [query_configuration(services, "compare", sql, _parameters(day)) for day in days]
    return 2 * sum(services.warehouse.jobs.dry_run_bytes(query) for query in queries)


def read_comparison(services: Services, job_id: str) -> PartitionComparison:
    """The result of a comparison whose job succeeded."""
    (row,) = services.warehouse.jobs.rows(job_id)
    return PartitionComparison(
        rows=row["row_count"], expected_rows=row["expected_rows"], missing=row["missing"], surplus=row["surplus"]
    )


def _parameters(day: date) -> dict[str, tuple[str, str]]:
    return {"compared_date": ("DATE", day.isoformat())}
