"""Decides whether an SQL engine applies a delivery of its attempt or refuses it, by examining landed files.

Parquet footers show which files have the same physical schema. For each such schema, a dry run reads the columns of one
file. One query per delivery counts the rows that break the data contract. No table is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import Any

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Arrival, Delivery
from dedup_clone.contract.errors import DeliveryRefused, JobFailed
from dedup_clone.contract.landed_objects import data_objects, describe_no_rows, empty_files, refusal_reason
from dedup_clone.contract.parquet import describe_undeclared
from dedup_clone.contract.table import Column, ColumnMode
from dedup_clone.publish.attempt_jobs import external_table, limited_query_configuration, run_step_job
from dedup_clone.publish.early_refusals import changes_since_arrival, object_uri
from dedup_clone.publish.services import Services
from dedup_clone.state.landing import ParquetFooter, ParquetLeaf, read_footers

# What sql/engines/examine_delivery.sql calls the external table of landed files. BigQuery takes a column of the same
# name for the whole row, so the name must be none that a feed's column may have.
LANDED_TABLE = "dedup_clone_landed"


@dataclass(frozen=True)
class ExaminedDelivery:
    """A valid delivery. `uris`: its files. `rows`: the number of its rows.

    `dropped_rows`: how many of them are older than the retention. `first_day`, `last_day`: the first and last date of
    the other rows; None if all rows are older.
    """

    arrival: Arrival
    uris: tuple[str, ...]
    rows: int
    dropped_rows: int
    first_day: date | None
    last_day: date | None

    @property
    def delivery(self) -> Delivery:
        return self.arrival.delivery


def examine(services: Services, attempt: Attempt, number: int, arrival: Arrival) -> ExaminedDelivery:
    """Validate the attempt's `number`-th delivery. Raises DeliveryRefused if it breaks the data contract.

    Raises what `run_step_job` raises, JobFailed only when BigQuery fails for another reason than the files. Raises
    CheckFailed when the query would read more than the feed's `max_bytes_billed`.
    """
    uri = object_uri(arrival)
    objects, problems = data_objects(attempt, arrival, uri)
    problems += empty_files(objects, uri)
    problems += changes_since_arrival(services, arrival)
    files = [item.landed.name for item in objects]
    _require_none(attempt, arrival, problems or _schema_problems(services, attempt, arrival, files))
    # Each job's configuration lists all files. An object with a list of URIs would have to be in the bucket of the
    # files, and this project only reads the landing bucket.
    uris = tuple(f"gs://{arrival.bucket}/{file}" for file in files)
    with refused_if_unreadable(attempt, arrival, "read"):
        counts = _count_rows(services, attempt, number, arrival, uris)
    problems = [problem for count in counts for problem in _row_problems(attempt, arrival, count)]
    # The query has a row for each file that has rows.
    _require_none(attempt, arrival, problems if counts else [describe_no_rows(uri(""), len(files))])
    retained = [count for count in counts if count["first_day"] is not None]
    return ExaminedDelivery(
        arrival=arrival,
        uris=uris,
        rows=sum(count["row_count"] for count in counts),
        dropped_rows=sum(count["dropped_rows"] for count in counts),
        first_day=min((count["first_day"] for count in retained), default=None),
        last_day=max((count["last_day"] for count in retained), default=None),
    )


def require_unchanged(services: Services, attempt: Attempt, applied: Iterable[ExaminedDelivery]) -> None:
    """Raise DeliveryRefused when landed files changed while BigQuery read them."""
    for examined in applied:
        _require_none(attempt, examined.arrival, changes_since_arrival(services, examined.arrival))


def _require_none(attempt: Attempt, arrival: Arrival, problems: list[str]) -> None:
    if problems:
        raise DeliveryRefused(refusal_reason(attempt.feed, arrival.delivery, problems))


@contextmanager
def refused_if_unreadable(attempt: Attempt, arrival: Arrival, verb: str) -> Iterator[None]:
    """Raise DeliveryRefused if a job in the `with` block failed because of the files that it was to read."""
    try:
        yield
    except JobFailed as error:
        if not error.is_invalid_input:
            raise
        _require_none(attempt, arrival, [f"BigQuery cannot {verb} its files: {error.message}"])


def _schema_problems(services: Services, attempt: Attempt, arrival: Arrival, files: list[str]) -> list[str]:
    """Problems of files whose columns are not the declared ones.

    A free dry run reads the columns of one file of each physical schema.
    """
    problems, examined_schemas = [], set()
    for footer in read_footers(services.landing.store, files):
        uri = f"gs://{arrival.bucket}/{footer.name}"
        if footer.problem:
            problems.append(f"file [{uri}] cannot be read as Parquet: {footer.problem}")
        elif footer.leaves not in examined_schemas:
            examined_schemas.add(footer.leaves)
            problems += [f"file [{uri}] {problem}" for problem in _problems_of_columns(services, attempt, uri, footer)]
    return problems


def _problems_of_columns(services: Services, attempt: Attempt, uri: str, footer: ParquetFooter) -> list[str]:
    files = external_table(LANDED_TABLE, [uri])
    query = {"query": f"SELECT * FROM {LANDED_TABLE}", "useLegacySql": False, "tableDefinitions": files}
    try:
        found = services.warehouse.jobs.dry_run_schema({"query": query})
    except JobFailed as error:
        if not error.is_invalid_input:
            raise
        return [f"cannot be read by BigQuery: {error.message}"]
    return column_problems(attempt.table.columns, _with_datetime(found, iter(footer.leaves)))


def _count_rows(
    services: Services, attempt: Attempt, number: int, arrival: Arrival, uris: tuple[str, ...]
) -> list[Mapping[str, Any]]:
    """The result of examine_delivery.sql: one row for each file that has rows. Raises JobFailed."""
    parameters = {
        "snapshot_id": ("INT64", str(arrival.delivery.snapshot_id)),
        "retention_day": ("DATE", attempt.retention_day.isoformat()),
        "latest_day": ("DATE", attempt.latest_day.isoformat()),
        "date_folders": ("BOOL", str(attempt.date_folders).lower()),
    }
    sql = services.warehouse.render("engines/examine_delivery.sql", names=services.names, table=attempt.table)
    files = external_table(LANDED_TABLE, uris)
    query = partial(limited_query_configuration, services, "examine", sql, parameters, tableDefinitions=files)
    job = run_step_job(services, attempt.id, f"examine_{number}", query)
    return list(services.warehouse.jobs.rows(job.job_id))


def column_problems(declared: Iterable[Column], found: Iterable[Column], prefix: str = "") -> list[str]:
    """One text for each missing, undeclared or differently typed column. Order and NOT NULL do not matter.

    `prefix`: the path of the STRUCT that the columns are in, with a dot at the end; empty for top-level columns.
    """
    missing = {column.name: column for column in declared}
    declared_paths = [f"{prefix}{name}" for name in missing]
    problems = []
    for column in found:
        expected = missing.pop(column.name, None)
        path = f"{prefix}{column.name}"
        if expected is None:
            problems.append(describe_undeclared(path, declared_paths))
        elif _type_text(column) != _type_text(expected):
            problems.append(f"column [{path}] is [{_type_text(column)}], expected [{_type_text(expected)}]")
        else:
            problems += column_problems(expected.fields, column.fields, f"{path}.")
    return problems + [f"column [{prefix}{c.name}] is missing, expected [{_type_text(c)}]" for c in missing.values()]


def _with_datetime(found: Iterable[Column], leaves: Iterator[ParquetLeaf]) -> tuple[Column, ...]:
    """The columns `found` by BigQuery in a file, but with type DATETIME for local times.

    BigQuery shows a local time (a Parquet timestamp that is not adjusted to UTC) as TIMESTAMP. `leaves`: the columns
    without fields in the file's footer, in the order of `found`; each call consumes those of its columns.
    """
    columns = []
    for column in found:
        if column.fields:
            columns.append(replace(column, fields=_with_datetime(column.fields, leaves)))
        else:
            leaf = next(leaves, None)
            is_local = leaf is not None and "isAdjustedToUTC=false" in leaf.logical_type and column.type == "TIMESTAMP"
            columns.append(replace(column, type="DATETIME") if is_local else column)
    return tuple(columns)


def _row_problems(attempt: Attempt, arrival: Arrival, count: Mapping[str, Any]) -> list[str]:
    """One text for each rule that a file's rows break. `count`: the row of examine_delivery.sql for the file."""
    table, date_column = attempt.table, attempt.table.partition_column
    problems = [
        f"column [{null['name']}]: {null['row_count']} rows are [NULL], expected none"
        for null in sorted(count["null_counts"], key=lambda item: str(item["name"]))
        if null["row_count"]
    ]
    if count["late_rows"]:
        problems.append(
            f"column [{date_column}]: {count['late_rows']} rows have a date up to [{count['last_day']}], "
            f"expected at most [{attempt.latest_day}]"
        )
    if count["other_day_rows"]:
        folder_day = str(count["file_name"]).rsplit("/", 2)[1].partition("=")[2]
        problems.append(
            f"column [{date_column}]: {count['other_day_rows']} rows have another date such as [{count['other_day']}], "
            f"expected its folder's [{folder_day}]"
        )
    if count["other_id_rows"]:
        problems.append(
            f"column [{table.snapshot_id_column}]: {count['other_id_rows']} rows have another id, "
            f"expected the folder's [{arrival.delivery.snapshot_id}]"
        )
    return [f"file [{count['file_name']}] {problem}" for problem in problems]


def _type_text(column: Column) -> str:
    return f"ARRAY of {column.type}" if column.mode is ColumnMode.REPEATED else column.type
