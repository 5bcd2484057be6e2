"""Estimates how much work an attempt is, from the attempt, the deliveries' inventories and the parent's manifest."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.landed_objects import objects_by_date
from dedup_clone.contract.manifest import Manifest
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.publish.services import Services

_BYTES_PER_ROW = 8  # a guess for when the parent has no rows of the dates; else the parent's row count is used


class Method(StrEnum):
    """How the job will handle the delivered dates, as far as it is known before the run. The log shows the values.

    - LATE: plan rewrite for a snapshot that is older than what is live; it writes only the rows that are new.
    - ADOPT_EXACTLY: plan adopt with `dedup.exact`.
    - WINDOW: ranked as a DataFrame: asked for, or because plan rewrite cannot stream the dates.
    """

    ADOPT = "adopted"
    LATE = "filled in"
    ADOPT_EXACTLY = "compared key by key and adopted"
    REWRITE = "rewritten"
    WINDOW = "ranked by Spark"


@dataclass(frozen=True)
class Workload:
    """How much work an attempt is.

    `deliveries`, `dates`: how many of them the attempt has; without date folders, the dates are those of the parent.
    `newest_rows`, `older_rows`: about how many rows the newest delivery has, and all others together. `parent_rows`:
    how many the parent has. If only some dates are replayed, bytes and rows are those of these dates. `reason`: why the
    method is not ADOPT; empty if it is.
    """

    deliveries: int
    delivered_bytes: int
    newest_rows: int
    older_rows: int
    parent_rows: int
    dates: int
    method: Method = Method.ADOPT
    reason: str = ""

    @property
    def delivered_rows(self) -> int:
        return self.newest_rows + self.older_rows


def read_workload(services: Services, attempt_id: str) -> Workload:
    """The workload of an attempt. Raises ContractViolation when its attempt or an arrival record is missing."""
    attempt = services.manifests.attempt(attempt_id)
    arrivals = [_arrival(services, attempt.arrival_uri(d)) for d in attempt.deliveries]
    by_date = [item for a in arrivals for item in objects_by_date(a, attempt.table.partition_column).items()]
    objects = [o for arrival in arrivals for o in arrival.objects]
    if attempt.dates is not None:
        by_date = [(day, files) for day, files in by_date if day in attempt.dates]
        objects = [o for _, files in by_date for o in files]
    delivered_bytes = sum(o.size for o in objects)
    parent = services.manifests.read(attempt.parent) if attempt.parent and attempt.parent_files else None
    parent_dates = [e for e in parent.dates if attempt.dates is None or e.date in attempt.dates] if parent else []
    parent_rows = sum(entry.rows for entry in parent_dates)
    older_deliveries = max(len(attempt.deliveries) - 1, 0)
    newest_rows = parent_rows or delivered_bytes // _BYTES_PER_ROW // (older_deliveries + 1)
    dates = {day for day, _ in by_date}
    method, reason = _method(attempt, parent)
    return Workload(
        deliveries=len(attempt.deliveries),
        delivered_bytes=delivered_bytes,
        newest_rows=newest_rows,
        older_rows=newest_rows * older_deliveries,
        parent_rows=parent_rows,
        dates=len(dates) or len(parent_dates) or 1,
        method=method,
        reason=reason,
    )


def _arrival(services: Services, uri: str) -> Arrival:
    arrival = services.store.read_record(Arrival, uri.removeprefix(services.store.uri("")))
    if arrival is None:
        raise ContractViolation(
            f"Arrival [{uri}] is gone: restore an earlier version of it (docs/runbook.md, lost records), then retry."
        )
    return arrival


def _method(attempt: Attempt, parent: Manifest | None) -> tuple[Method, str]:
    """The method, and why it is not ADOPT."""
    if attempt.erases:
        return Method.ADOPT, ""  # reads the keys of the parent, as adopt does
    if attempt.plan is Plan.WINDOW:
        return Method.WINDOW, f"plan [{attempt.plan}] is asked for"
    if not attempt.date_folders:
        return Method.WINDOW, "a file without a date folder may hold several dates"
    newest = max(delivery.snapshot_id for delivery in attempt.deliveries)
    keeps_ids = attempt.update_id_mode is UpdateIdMode.LAST_CHANGED
    if attempt.plan is Plan.REWRITE:
        method, reason = Method.REWRITE, f"plan [{attempt.plan}] is asked for"
    elif keeps_ids:
        method, reason = Method.REWRITE, f"mode [{attempt.update_id_mode}] compares values"
    elif parent and newest < parent.snapshot_id:
        method, reason = Method.LATE, f"snapshot [{newest}] is older than [{parent.snapshot_id}], which is live"
    elif attempt.exact:
        return Method.ADOPT_EXACTLY, "[dedup.exact] compares all keys"
    else:
        return Method.ADOPT, ""
    if len(attempt.deliveries) > 1:
        return Method.WINDOW, f"{reason}, and [{len(attempt.deliveries)}] deliveries wait"
    if attempt.exact and keeps_ids:
        return Method.WINDOW, f"{reason}, and [dedup.exact] compares them themselves"
    return method, reason
