"""What the new generation will be, date by date, as one query counts it before anything is written to staging."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from dedup_clone.contract.manifest import Difference, KeyExample
from dedup_clone.contract.request import DedupRequest
from dedup_clone.publish.jobs import query_configuration, run_step_job
from dedup_clone.publish.services import Services

_DATES_WITH_EXAMPLES = 20


@dataclass(frozen=True)
class DayEvidence:
    """One delivered date. `ties` are surplus rows by snapshot id."""

    date: date
    rows: int
    new_keys: int
    changed: int
    survivors: int
    min_update_id: int
    max_update_id: int
    ties: Mapping[int, int]


@dataclass(frozen=True)
class Evidence:
    """`days` are the dates within the retention that an applied delivery has."""

    days: tuple[DayEvidence, ...]
    examples: tuple[KeyExample, ...]
    bytes_processed: int

    def ties_by_snapshot(self) -> Mapping[int, int]:
        total: Counter[int] = Counter()
        for day in self.days:
            total.update(day.ties)
        return total


def gather_evidence(services: Services, request: DedupRequest, first_day: date, last_day: date) -> Evidence:
    """`first_day` and `last_day` bound the delivered dates: no other partition of target is read. Raises JobFailed."""
    parameters = day_parameters(request.retention_day, first_day, last_day)
    sql = services.warehouse.render(
        "engines/evidence.sql",
        names=services.names,
        table=request.table,
        has_parent=request.parent is not None,
    )
    configuration = query_configuration(services, "evidence", sql, parameters)
    job = run_step_job(services, request.attempt, "evidence", configuration)
    rows = list(services.warehouse.jobs.rows(job.job_id))
    return Evidence(tuple(_day(row) for row in rows), _examples(rows), job.bytes_processed)


def day_parameters(retention_day: date, first_day: date, last_day: date) -> dict[str, tuple[str, str]]:
    """The query parameters that evidence and MERGE share."""
    days = {"retention_day": retention_day, "first_day": first_day, "last_day": last_day}
    return {name: ("DATE", day.isoformat()) for name, day in days.items()}


def _day(row: Mapping[str, Any]) -> DayEvidence:
    return DayEvidence(
        date=row["found_day"],
        rows=row["row_count"],
        new_keys=row["new_keys"],
        changed=row["changed"],
        survivors=row["survivors"],
        min_update_id=row["min_update_id"],
        max_update_id=row["max_update_id"],
        ties={tie["snapshot_id"]: tie["surplus"] for tie in row["ties"] if tie["surplus"]},
    )


_COUNTS = {Difference.NEW: "new_keys", Difference.CHANGED: "changed", Difference.SURVIVOR: "survivors"}


def _examples(rows: list[Mapping[str, Any]]) -> tuple[KeyExample, ...]:
    """Of each difference the dates that have most of it, with three keys each."""
    found = []
    for difference, count in _COUNTS.items():
        worst = sorted(rows, key=lambda row: (-row[count], row["found_day"]))[:_DATES_WITH_EXAMPLES]
        for row in worst:
            found += [KeyExample(row["found_day"], difference, key) for key in row[f"{difference}_examples"]]
    return tuple(found)
