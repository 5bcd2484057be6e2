"""Builds the tasks of plan rewrite: one for each date, with the date's delivery and the parent's files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.parent import Parent
from dedup_spark.plans.adopt.adopt_task_builder import presumes_adopt
from dedup_spark.plans.delivered_date import DeliveredDate, deliveries_by_date
from dedup_spark.plans.rewrite.rewrite_task import MergePolicy, RewriteTask


def rewrite_tasks(
    request: DedupRequest, dates: Iterable[date], applied: Sequence[ValidatedDelivery], parent: Parent
) -> list[RewriteTask]:
    """Return one task for each date. At most one delivery may have the date."""
    return [_task(request, day, found, parent) for day, found in deliveries_by_date(dates, applied).items()]


def presumed_rewrite_tasks(
    request: DedupRequest, presumed: Mapping[date, tuple[DeliveredDate, ...]], parent: Parent
) -> list[RewriteTask]:
    """Return the tasks as they will be if every one of the `presumed` deliveries is applied.

    A date has no task if plan adopt can handle it, or if this plan cannot, for example because several deliveries have
    the date.
    """
    if request.takes_over is not None or request.plan not in (Plan.AUTO, Plan.ADOPT, Plan.REWRITE):
        return []
    if compares_exact_values(request):
        return []
    return [
        _task(request, day, found, parent)
        for day, found in presumed.items()
        if len(found) == 1 and not presumes_adopt(request, found[-1].delivery, parent.dates.get(day))
    ]


def compares_exact_values(request: DedupRequest) -> bool:
    """Whether values have to be compared themselves. This plan only compares their hashes, so it has no task then."""
    return request.exact and request.update_id_mode is UpdateIdMode.LAST_CHANGED


def _task(request: DedupRequest, day: date, found: Sequence[DeliveredDate], parent: Parent) -> RewriteTask:
    delivered, entry = next(iter(found), None), parent.dates.get(day)
    is_late = bool(delivered and entry and delivered.delivery.snapshot_id <= entry.max_update_id)
    policy = MergePolicy.LATE if is_late else MergePolicy.IN_ORDER
    if request.update_id_mode is UpdateIdMode.LAST_CHANGED:
        policy = MergePolicy.BY_VALUE
    keeps_files = policy is MergePolicy.LATE and request.plan is not Plan.REWRITE
    return RewriteTask(day, policy, delivered, request.takes_over is not None, parent.on_date(day), keeps_files)
