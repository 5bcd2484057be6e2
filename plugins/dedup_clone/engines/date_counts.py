"""Counts the rows of each delivered date of the new generation by one query, before anything is written to staging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedup_clone.contract.manifest import DATES_WITH_EXAMPLES, Difference, KeyExample
from dedup_clone.contract.request import DedupRequest
from dedup_clone.publish.attempt_jobs import limited_query_configuration, run_step_job
from dedup_clone.publish.services import Services

_COUNT_COLUMNS = {Difference.NEW: "new_keys", Difference.CHANGED: "changed", Difference.SURVIVOR: "survivors"}


@dataclass(frozen=True)
class DateCounts:
    """Counts of one delivered date in the new generation, as in `DateEntry` (contract/manifest.py).

    `snapshot_ids`: of the deliveries that have the date. `surplus_rows`: the delivered rows beyond the first of each
    key, by snapshot id.
    """

    date: date
    rows: int
    new_keys: int
    changed: int
    survivors: int
    min_update_id: int
    max_update_id: int
    snapshot_ids: tuple[int, ...]
    surplus_rows: Mapping[int, int]


@dataclass(frozen=True)
class CountedDates:
    """The result of the counting query.

    `dates`: the counts of the dates that an applied delivery has, within the retention. `examples`: keys of rows that
    are new, changed or survivors. `bytes_processed`: the bytes that the query read.
    """

    dates: tuple[DateCounts, ...]
    examples: tuple[KeyExample, ...]
    bytes_processed: int

    def surplus_rows_by_snapshot(self) -> Mapping[int, int]:
        """The surplus rows of all dates, by snapshot id."""
        total: Counter[int] = Counter()
        for counts in self.dates:
            total.update(counts.surplus_rows)
        return total


def count_dates(services: Services, request: DedupRequest, first_day: date, last_day: date) -> CountedDates:
    """Count the rows of the delivered dates, which are between `first_day` and `last_day`.

    Raises what `run_step_job` raises, and CheckFailed if the query would read more than the feed's `max_bytes_billed`.
    """
    parameters = date_parameters(request.retention_day, first_day, last_day)
    sql = services.warehouse.render(
        "engines/evidence.sql",
        names=services.names,
        table=request.table,
        has_parent=request.parent is not None,
    )
    configuration = limited_query_configuration(services, "evidence", sql, parameters)
    job = run_step_job(services, request.attempt, "evidence", configuration)
    rows = list(services.warehouse.jobs.rows(job.job_id))
    return CountedDates(tuple(_date_counts(row) for row in rows), _key_examples(rows), job.bytes_processed)


def date_parameters(retention_day: date, first_day: date, last_day: date) -> dict[str, tuple[str, str]]:
    """The parameters of `evidence.sql` and `merge.sql`: by name, the BigQuery type and the value as text."""
    days = {"retention_day": retention_day, "first_day": first_day, "last_day": last_day}
    return {name: ("DATE", day.isoformat()) for name, day in days.items()}


def _date_counts(row: Mapping[str, Any]) -> DateCounts:
    return DateCounts(
        date=row["found_day"],
        rows=row["row_count"],
        new_keys=row["new_keys"],
        changed=row["changed"],
        survivors=row["survivors"],
        min_update_id=row["min_update_id"],
        max_update_id=row["max_update_id"],
        snapshot_ids=tuple(item["snapshot_id"] for item in row["ties"]),
        surplus_rows={item["snapshot_id"]: item["surplus"] for item in row["ties"] if item["surplus"]},
    )


def _key_examples(rows: list[Mapping[str, Any]]) -> tuple[KeyExample, ...]:
    """Up to three keys per date for each kind of difference, from the dates with the most rows of that kind."""
    examples = []
    for difference, column in _COUNT_COLUMNS.items():
        for row in sorted(rows, key=lambda r: (-r[column], r["found_day"]))[:DATES_WITH_EXAMPLES]:
            examples += [KeyExample(row["found_day"], difference, key) for key in row[f"{difference}_examples"]]
    return tuple(examples)
