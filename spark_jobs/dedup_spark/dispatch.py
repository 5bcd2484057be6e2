"""Runs each date's plan: first adopt, then rewrite, then window, which also writes what the others decline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.candidate.new_manifest import PlanResults
from dedup_spark.execution.date_fan_out import KEY_CACHE_BYTES, largest_first
from dedup_spark.execution.job_log import JobLog
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.execution.session import SessionSource
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.output.file_sizes import target_file_bytes
from dedup_spark.parent import Parent
from dedup_spark.plan_selection import DatePlan
from dedup_spark.plans.adopt.adopt_date import AdoptDate
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.date_tasks import run_tasks_of_dates
from dedup_spark.plans.fused_scan import FusedScan
from dedup_spark.plans.rewrite.rewrite_date import RewriteDate
from dedup_spark.plans.scanned_date import Outcome, Task
from dedup_spark.plans.window.window_plan import run_window_plan


@dataclass(frozen=True)
class _WriteDate:
    """Runs the task of one date."""

    adopt: AdoptDate
    rewrite: RewriteDate

    def __call__(self, task: Task) -> Outcome:
        return self.adopt(task) if isinstance(task, AdoptTask) else self.rewrite(task)

    def with_parts(self, parts: PartTasks) -> _WriteDate:
        """Return the same work, to be called on the driver, with parts of it run as Spark tasks."""
        return replace(self, adopt=replace(self.adopt, parts=parts))


def run_plans(
    session: SessionSource,
    request: DedupRequest,
    plans: dict[date, DatePlan],
    applied: tuple[ValidatedDelivery, ...],
    parent: Parent,
    scan: FusedScan,
    job_log: JobLog,
) -> tuple[dict[date, DatePlan], PlanResults]:
    """Return the plan that each date finally took, and what the plans wrote.

    Files of the fused scan that no plan uses are deleted.
    """
    tasks: list[Task] = largest_first(plan.task for plan in plans.values() if plan.task)
    outcomes = scan.claim(tasks)
    file_bytes = target_file_bytes(
        request.file_bytes, (f.file for validated in applied for f in validated.files), parent
    )
    _log_not_adopted(job_log, plans.values())
    remaining = [task for task in tasks if task.day not in outcomes]
    with job_log.phase("deduplicate"):
        work = _WriteDate(
            AdoptDate.from_request(request, scan.seed, KEY_CACHE_BYTES),
            RewriteDate.from_request(request, scan.seed, file_bytes, KEY_CACHE_BYTES),
        )
        description = f"{request.feed} generation {request.generation}: compare and write"
        found = run_tasks_of_dates(session, work, remaining, description, request.data_uri, job_log)
    outcomes.update(zip((task.day for task in remaining), found, strict=True))
    results = PlanResults()
    plans = dict(plans)
    for day, outcome in outcomes.items():
        results.add(outcome)
        plans[day] = plans[day].after(outcome)
    days = {day for day, plan in plans.items() if plan.outcome is DateOutcome.WINDOW}
    if days:
        with job_log.phase(DateOutcome.WINDOW):
            job_log.expect_dates(len(days))
            with job_log.dates_at_work(len(days)):
                written = run_window_plan(session(), request, days, applied, parent, file_bytes)
        for date_written in written:
            fingerprint = _unchanged_fingerprint(request.update_id_mode, date_written.day, applied, parent)
            results.add(replace(date_written, key_fingerprint=fingerprint))
    return plans, results


def _log_not_adopted(job_log: JobLog, plans: Iterable[DatePlan]) -> None:
    """Log how many dates have a slower plan than adopt, and the most frequent reason, with the number of its dates.

    The fused scan may have rewritten some of these dates already.
    """
    slower = [plan for plan in plans if plan.outcome in (DateOutcome.REWRITE, DateOutcome.WINDOW)]
    if slower:
        ((reason, count),) = Counter(plan.reason for plan in slower).most_common(1)
        window_count = sum(plan.outcome is DateOutcome.WINDOW for plan in slower)
        job_log.info(
            f"[{len(slower)}] dates take longer than adopting them would, [{window_count}] of them by plan window; "
            f"[{count}]: {reason}"
        )


def _unchanged_fingerprint(
    mode: UpdateIdMode, day: date, applied: tuple[ValidatedDelivery, ...], parent: Parent
) -> str | None:
    """Return the digest of the parent's key fingerprint of a date of plan window, if it still holds, else None.

    The fingerprint covers only the rows with the date's highest update_id. They do not change if all applied deliveries
    of the date have lower snapshot ids.
    """
    entry = parent.dates.get(day)
    if mode is not UpdateIdMode.LAST_SEEN or entry is None:
        return None
    ids = [validated.delivery.snapshot_id for validated in applied if day in validated.retained_rows]
    return entry.key_fingerprint if all(snapshot_id < entry.max_update_id for snapshot_id in ids) else None
