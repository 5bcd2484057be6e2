"""Runs the feed's SQL checks: queries that read staging as of the same time as the swap's clone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from dedup_clone.checks.check_result import CheckResult, Level, make_result
from dedup_clone.contract.costs import GIB
from dedup_clone.contract.errors import JobFailed
from dedup_clone.publish.attempt_jobs import query_configuration, with_billing_limit
from dedup_clone.publish.services import Services
from dedup_clone.settings.check_settings import UNIQUE_ACROSS_DATES, SqlCheck
from dedup_clone.warehouse.jobs import QueryResult
from dedup_clone.warehouse.metadata import TableMetadata
from dedup_clone.warehouse.sql_files import render_query

SQL_FILE = "checks/unique_across_dates.sql"
ROWS_SHOWN = 3  # as examples in the result of a failed check


def run_sql_checks(services: Services, checked_at: datetime) -> tuple[list[CheckResult], int]:
    """The results of all SQL checks of the feed, and the bytes billed for them.

    `checked_at`: the time as of which the queries read staging. Raises ConfigurationError for a query with a wrong
    placeholder, JobFailed when a valid query failed, for example because of a quota; the task is then tried again.
    """
    results, bytes_billed = [], 0
    for check in services.feed.sql_checks:
        result, billed = _run(services, check, checked_at)
        results.append(result)
        bytes_billed += billed
    return results, bytes_billed


def dry_run_sql_checks(services: Services, staging: TableMetadata) -> list[CheckResult]:
    """The results of dry runs: whether each query is valid for staging as it is now, and within its `max_bytes_billed`.

    No results if staging does not have the declared columns yet: the queries may name columns that the load adds.

    Raises ConfigurationError for a query with a wrong placeholder, JobFailed as `run_sql_checks` does.
    """
    feed = services.feed
    if staging.columns != feed.table.to_contract().columns:
        return []
    return [_dry_run(services, check, _configuration(services, check, None)) for check in feed.sql_checks]


def _run(services: Services, check: SqlCheck, checked_at: datetime) -> tuple[CheckResult, int]:
    configuration = _configuration(services, check, checked_at)
    estimated = _dry_run(services, check, configuration)
    if estimated.level is Level.FAIL:
        return estimated, 0
    try:
        found_rows = services.warehouse.jobs.select(
            with_billing_limit(configuration, check.max_bytes_billed), max_rows=ROWS_SHOWN
        )
    except JobFailed as error:
        if not error.is_invalid_input:
            raise
        return _misconfigured(services, check, f"the query fails: {error.message}", "a SELECT"), 0
    result = _value_result(services, check, found_rows) if check.has_range else _row_count_result(check, found_rows)
    return result, found_rows.bytes_billed


def _row_count_result(check: SqlCheck, found_rows: QueryResult) -> CheckResult:
    return make_result(
        check.result_name,
        found_rows.row_count <= check.max_rows,
        found=f"{found_rows.row_count} rows",
        expected=f"at most {check.max_rows} rows",
        next_step=_look_at_snapshot(check),
        examples=[_row_text(row) for row in found_rows.first_rows],
    )


def _value_result(services: Services, check: SqlCheck, found_rows: QueryResult) -> CheckResult:
    """Check that the query's one value lies in the check's range. NULL, such as an average of no rows, does not."""
    values = [value for row in found_rows.first_rows for value in row.values()]
    if found_rows.row_count != 1 or len(values) != 1 or not _is_number_or_null(values[0]):
        expected = "one row with one number, because the check has min or max"
        return _misconfigured(services, check, _shape(found_rows), expected)
    (value,) = values
    bounds = (("at least", check.min), ("at most", check.max))
    return make_result(
        check.result_name,
        value is not None and (check.min is None or value >= check.min) and (check.max is None or value <= check.max),
        found="NULL" if value is None else f"{value}",
        expected=" and ".join(f"{word} {bound:.15g}" for word, bound in bounds if bound is not None),
        next_step=_look_at_snapshot(check),
    )


def _shape(found_rows: QueryResult) -> str:
    types = [type(value).__name__ for row in found_rows.first_rows[:1] for value in row.values()]
    return f"{found_rows.row_count} rows" + (f", the first of types {', '.join(types)}" if types else "")


def _is_number_or_null(value: object) -> bool:
    return value is None or (isinstance(value, (int, float, Decimal)) and not isinstance(value, bool))


def _look_at_snapshot(check: SqlCheck) -> str:
    return f"look at the snapshot with its producer; if it is right, replay and accept [{check.result_name}]."


def _dry_run(services: Services, check: SqlCheck, configuration: Mapping[str, Any]) -> CheckResult:
    try:
        size = services.warehouse.jobs.dry_run_select_bytes(configuration)
    except JobFailed as error:
        if not error.is_invalid_input:
            raise
        return _misconfigured(services, check, f"the query fails: {error.message}", "a SELECT")
    is_too_large = size > check.max_bytes_billed
    result = make_result(
        check.result_name,
        not is_too_large,
        found=f"the query reads {size / GIB:.2f} GiB",
        expected=f"at most {check.max_bytes_billed / GIB:.2f} GiB (max_bytes_billed)",
        next_step=f"let [{_file(services, check)}] read fewer columns or partitions, or raise max_bytes_billed.",
    )
    return replace(result, is_misconfigured=is_too_large)


def _misconfigured(services: Services, check: SqlCheck, found: str, expected: str) -> CheckResult:
    next_step = f"correct [{_file(services, check)}], release it, and clear the run from its first task."
    return CheckResult(check.result_name, Level.FAIL, found, expected, next_step, is_misconfigured=True)


def _file(services: Services, check: SqlCheck) -> str:
    if check.name == UNIQUE_ACROSS_DATES:
        return f"checks.{UNIQUE_ACROSS_DATES}"
    return f"dags/feeds/{services.feed.feed}/{check.name}.sql"


def _configuration(services: Services, check: SqlCheck, checked_at: datetime | None) -> Mapping[str, Any]:
    """The query over staging as of `checked_at`, or, if that is None, over staging as it is now."""
    moment, is_now, feed = checked_at or services.now(), checked_at is None, services.feed
    if check.name == UNIQUE_ACROSS_DATES:
        table = replace(feed.table.to_contract(), keys=feed.checks.unique_across_dates)
        sql = services.warehouse.render(SQL_FILE, names=services.names, table=table, is_now=is_now)
    else:
        sql = render_query(feed.query_of(check), name=check.name, names=services.names, is_now=is_now)
    return query_configuration(services, "sql_check", sql, {"checked_at": ("TIMESTAMP", moment.isoformat())})


def _row_text(row: Mapping[str, Any]) -> str:
    return "(" + ", ".join(f"{name} {value}" for name, value in row.items())[:200] + ")"
