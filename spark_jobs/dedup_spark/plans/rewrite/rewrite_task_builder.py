"""Builds the tasks of plan rewrite: one for each date, with the date's delivery and the parent's files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.parent import Parent
from dedup_spark.plans.delivered_date import DeliveredDate, deliveries_by_date
from dedup_spark.plans.rewrite.rewrite_task import MergePolicy, RewriteTask


def rewrite_tasks(
    request: DedupRequest, dates: Iterable[date], applied: Sequence[ValidatedDelivery], parent: Parent
) -> list[RewriteTask]:
    """Return one task for each date. At most one delivery may have the date."""
    return [_task(request, day, found, parent) for day, found in deliveries_by_date(dates, applied).items()]


def _task(request: DedupRequest, day: date, found: Sequence[DeliveredDate], parent: Parent) -> RewriteTask:
    delivered, entry = next(iter(found), None), parent.dates.get(day)
    is_late = bool(delivered and entry and delivered.delivery.snapshot_id <= entry.max_update_id)
    policy = MergePolicy.LATE if is_late else MergePolicy.IN_ORDER
    if request.update_id_mode is UpdateIdMode.LAST_CHANGED:
        policy = MergePolicy.BY_VALUE
    keeps_files = policy is MergePolicy.LATE and request.plan is not Plan.REWRITE
    return RewriteTask(day, policy, delivered, request.takes_over is not None, parent.on_date(day), keeps_files)
