"""Builds the manifest of a generation that an SQL engine makes, before anything is written to staging.

One query counts the rows of each delivered date of the new generation. The parent's manifest has the other dates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import partial
from typing import Any

from dedup_clone.checks.partition_checks import has_expired, may_be_expired, roll_back_to
from dedup_clone.contract.absent_rows import replacing_snapshots
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import (
    DATES_WITH_EXAMPLES,
    DateEntry,
    DateOutcome,
    Difference,
    KeyExample,
    Manifest,
    new_manifest,
    newest_snapshot,
)
from dedup_clone.contract.table import Absent
from dedup_clone.publish.attempt_jobs import limited_query_configuration, run_step_job
from dedup_clone.publish.services import Services

_NEWER_STAYS = "a newer snapshot has this date, whose rows stay"
_COUNT_COLUMNS = {Difference.NEW: "new_keys", Difference.CHANGED: "changed", Difference.SURVIVOR: "survivors"}


@dataclass(frozen=True)
class CountedDates:
    """The counted rows: one of engines/evidence.sql for each date that an applied delivery has within the retention."""

    rows: tuple[Mapping[str, Any], ...]

    def surplus_rows(self) -> Counter[int]:
        """The delivered rows beyond the first of each key, by snapshot id."""
        total: Counter[int] = Counter()
        for row in self.rows:
            total.update({tie["snapshot_id"]: tie["surplus"] for tie in row["ties"]})
        return total

    def key_examples(self) -> tuple[KeyExample, ...]:
        """Up to three keys per date for each kind of difference, from the dates with the most rows of that kind."""
        examples = []
        for difference, column in _COUNT_COLUMNS.items():
            for row in sorted(self.rows, key=lambda r: (-r[column], r["found_day"]))[:DATES_WITH_EXAMPLES]:
                examples += [KeyExample(row["found_day"], difference, key) for key in row[f"{difference}_examples"]]
        return tuple(examples)


def count_dates(services: Services, attempt: Attempt, first_day: date, last_day: date) -> CountedDates:
    """Count the rows of the delivered dates, which are between `first_day` and `last_day`.

    Raises what `run_step_job` raises, and CheckFailed if the query would read more than the feed's `max_bytes_billed`.
    """
    names, has_parent = services.names.of_attempt(attempt.id), attempt.parent is not None
    sql = services.warehouse.render("engines/evidence.sql", names=names, table=attempt.table, has_parent=has_parent)
    parameters = date_parameters(attempt.retention_day, first_day, last_day)
    query = partial(limited_query_configuration, services, "evidence", sql, parameters)
    job = run_step_job(services, attempt.id, "evidence", query)
    return CountedDates(tuple(services.warehouse.jobs.rows(job.job_id)))


def date_parameters(retention_day: date, first_day: date, last_day: date) -> dict[str, tuple[str, str]]:
    """The parameters of `evidence.sql` and `merge.sql`: by name, the BigQuery type and the value as text."""
    days = {"retention_day": retention_day, "first_day": first_day, "last_day": last_day}
    return {name: ("DATE", day.isoformat()) for name, day in days.items()}


def build_manifest(
    attempt: Attempt,
    counted: CountedDates,
    parent: Manifest | None,
    applied: tuple[Delivery, ...],
    *,
    delivered_rows_dropped: int,
    now: datetime,
) -> Manifest:
    """Build the manifest.

    Raises ContractViolation when target's number of rows on a delivered date is not that of the parent's manifest.
    `applied`: the deliveries in the incoming table. `delivered_rows_dropped`: how many of their rows are older than the
    retention.
    """
    parent_entries = {entry.date: entry for entry in parent.dates} if parent else {}
    retained = {day: entry for day, entry in parent_entries.items() if day >= attempt.retention_day}
    replaced: dict[date, int | None] = {row["found_day"]: _newest_id(row) for row in counted.rows}
    entries = {day: _copied_forward(entry) for day, entry in retained.items()}
    if attempt.table.absent_keys is Absent.DELETE:
        ids = {row["found_day"]: [_newest_id(row)] for row in counted.rows}
        newest, only_some_dates = parent.newest_id if parent else None, attempt.dates is not None
        replaced = replacing_snapshots(attempt.table, ids, retained, newest, only_some_dates=only_some_dates)
        entries = {day: entry for day, entry in entries.items() if day in replaced}
    for row in counted.rows:
        day = row["found_day"]
        _require_parent_complete(attempt, row, retained.get(day), now)
        if replaced.get(day) is not None:
            entries[day] = _entry(attempt, row, retained.get(day))
        elif day in entries:
            entries[day] = replace(entries[day], plan=DateOutcome.UNCHANGED, plan_reason=_NEWER_STAYS)
    return new_manifest(
        attempt,
        applied,
        tuple(entries[day] for day in sorted(entries)),
        dropped_rows=delivered_rows_dropped + sum(e.rows for day, e in parent_entries.items() if day not in retained),
        created_at=now,
        deleted_dates={day: entry.rows for day, entry in retained.items() if day not in entries},
    )


def _newest_id(row: Mapping[str, Any]) -> int:
    """The newest snapshot that has the date. `row`: of engines/evidence.sql."""
    newest: int = max(tie["snapshot_id"] for tie in row["ties"])
    return newest


def _copied_forward(entry: DateEntry) -> DateEntry:
    return replace(
        entry,
        new_keys=0,
        changed=0,
        deleted=0,
        ties=0,
        plan=DateOutcome.COPIED_FORWARD,
        plan_reason="no applied delivery has this date",
        adopted_delivery=None,
        files_digest="",
    )


def _entry(attempt: Attempt, row: Mapping[str, Any], parent_entry: DateEntry | None) -> DateEntry:
    """The entry of a delivered date. `row`: of engines/evidence.sql."""
    form = f" (form {attempt.form})" if attempt.engine is Engine.BIGQUERY else ""
    snapshot_ids, newest_id = [tie["snapshot_id"] for tie in row["ties"]], _newest_id(row)
    deletes = attempt.table.absent_keys is Absent.DELETE
    return DateEntry(
        date=row["found_day"],
        rows=row["row_count"] - (row["survivors"] if deletes else 0),
        new_keys=row["new_keys"],
        changed=row["changed"],
        survivors=0 if deletes else row["survivors"],
        deleted=row["survivors"] if deletes else 0,
        ties=sum(tie["surplus"] for tie in row["ties"] if not deletes or tie["snapshot_id"] == newest_id),
        plan=DateOutcome(attempt.engine),
        plan_reason=f"the engine's statement{form}, over target and the deliveries",
        min_update_id=newest_id if deletes else row["min_update_id"],
        max_update_id=row["max_update_id"],
        adopted_delivery=None,
        key_fingerprint=None,
        files_digest="",
        newest_snapshot=newest_snapshot(attempt.update_id_mode, snapshot_ids, parent_entry),
    )


def _require_parent_complete(
    attempt: Attempt, row: Mapping[str, Any], parent_entry: DateEntry | None, now: datetime
) -> None:
    """Raise ContractViolation unless target has as many rows of the date as the parent. An expired date may be gone.

    `parent_entry`: None if the parent lacks the date.
    """
    day, found, expected = (
        row["found_day"],
        row["row_count"] - row["new_keys"],
        parent_entry.rows if parent_entry else 0,
    )
    if found == expected or (
        may_be_expired(attempt.table, found, expected) and has_expired(day, attempt.table.retention_days, now)
    ):
        return
    raise ContractViolation(
        f"Date [{day}] has [{found}] keys in target, expected [{expected}] as the parent's manifest says: "
        f"somebody changed target. Next: {roll_back_to(attempt.parent or 0)}."
    )
