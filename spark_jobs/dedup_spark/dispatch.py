"""Runs each date's plan: first adopt, then rewrite, then the DataFrame plans.

A date that adopt or rewrite declines is written by the DataFrame join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.request import DedupRequest
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.candidate.new_manifest import PlanResults
from dedup_spark.execution.date_fan_out import KEY_CACHE_BYTES, largest_first
from dedup_spark.execution.job_log import JobLog
from dedup_spark.execution.session import SessionSource
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.output.file_sizes import target_file_bytes
from dedup_spark.parent import Parent
from dedup_spark.plan_selection import DatePlan
from dedup_spark.plans.adopt.adopt_date import AdoptDate
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.dataframe.dataframe_plan import run_dataframe_plan
from dedup_spark.plans.date_tasks import run_tasks_of_dates
from dedup_spark.plans.fused_scan import FusedScan
from dedup_spark.plans.rewrite.rewrite_date import RewriteDate
from dedup_spark.plans.rewrite.rewrite_task import RewriteTask
from dedup_spark.plans.saved_outcomes import ResumableWork
from dedup_spark.plans.scanned_date import Outcome, Task

# REWRITE is among them, because the DataFrame join writes the dates of plan rewrite that cannot be streamed.
_DATAFRAME_PLANS = (DateOutcome.WINDOW, DateOutcome.ANTIJOIN, DateOutcome.REWRITE)


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
    to_adopt = largest_first(plan.task for plan in plans.values() if isinstance(plan.task, AdoptTask))
    to_rewrite = largest_first(plan.task for plan in plans.values() if isinstance(plan.task, RewriteTask))
    outcomes = scan.claim([*to_adopt, *to_rewrite])
    file_bytes = target_file_bytes(
        request.file_bytes, (f.file for validated in applied for f in validated.files), parent
    )

    def run_remaining(tasks: Sequence[Task], work: Callable[[Any], Outcome], step: str) -> None:
        """Run `work` for those of `tasks` that have no outcome yet, and add their outcomes to `outcomes`."""
        remaining = [task for task in tasks if task.day not in outcomes]
        description = f"{request.feed} generation {request.generation}: {step}"
        found = run_tasks_of_dates(
            session, ResumableWork(work, scan.saved), remaining, description, request.data_uri, job_log
        )
        outcomes.update(zip((task.day for task in remaining), found, strict=True))

    if to_adopt:
        with job_log.phase(DateOutcome.ADOPT):
            run_remaining(to_adopt, AdoptDate.from_request(request, scan.seed, KEY_CACHE_BYTES), "adopt, compare keys")
    _log_not_adopted(job_log, [plan.after(outcomes[day]) if day in outcomes else plan for day, plan in plans.items()])
    with job_log.phase(DateOutcome.REWRITE):
        rewrite = RewriteDate.from_request(request, scan.seed, file_bytes, KEY_CACHE_BYTES)
        run_remaining(to_rewrite, rewrite, "rewrite, compare and write rows")
    results = PlanResults(fingerprints=_unchanged_fingerprints(request.update_id_mode, plans, applied, parent))
    plans = dict(plans)
    for day, outcome in outcomes.items():
        results.add(outcome)
        plans[day] = plans[day].after(outcome)
    for dataframe_plan in _DATAFRAME_PLANS:
        days = {day for day, plan in plans.items() if plan.outcome == dataframe_plan and plan.uses_dataframes}
        if days:
            with job_log.phase(f"{dataframe_plan} by spark"):
                job_log.expect_dates(len(days))
                with job_log.dates_at_work(len(days)):
                    written = run_dataframe_plan(session(), request, dataframe_plan, days, applied, parent, file_bytes)
            for written_date in written:
                key_fingerprint = results.fingerprints.get(written_date.day)
                results.add(replace(written_date, key_fingerprint=key_fingerprint))
    return plans, results


def _log_not_adopted(job_log: JobLog, plans: Sequence[DatePlan]) -> None:
    """Log how many dates have a slower plan than adopt, and the most frequent reason, with the number of its dates.

    The fused scan may have rewritten some of these dates already.
    """
    slower = [plan for plan in plans if plan.is_streamed or plan.uses_dataframes]
    if slower:
        ((reason, count),) = Counter(plan.reason for plan in slower).most_common(1)
        dataframe_count = sum(plan.uses_dataframes for plan in slower)
        job_log.info(
            f"[{len(slower)}] dates take longer than adopting them would, [{dataframe_count}] of them as DataFrames; "
            f"[{count}]: {reason}"
        )


def _unchanged_fingerprints(
    mode: UpdateIdMode, plans: dict[date, DatePlan], applied: tuple[ValidatedDelivery, ...], parent: Parent
) -> dict[date, str]:
    """Return by date the digests of the parent's key fingerprints that hold for the new generation, too.

    The fingerprint covers only the rows with the date's highest update_id. They do not change if all applied deliveries
    of the date have lower snapshot ids. Left out are dates copied forward, and dates of plan adopt, which get a
    fingerprint from their task.
    """
    if mode is not UpdateIdMode.LAST_SEEN:
        return {}
    fingerprints = {}
    for day, plan in plans.items():
        parent_entry = parent.dates.get(day)
        needs_fingerprint = plan.outcome not in (DateOutcome.COPIED_FORWARD, DateOutcome.ADOPT)
        if parent_entry is None or parent_entry.key_fingerprint is None or not needs_fingerprint:
            continue
        ids = [validated.delivery.snapshot_id for validated in applied if day in validated.retained_rows]
        if all(snapshot_id < parent_entry.max_update_id for snapshot_id in ids):
            fingerprints[day] = parent_entry.key_fingerprint
    return fingerprints
