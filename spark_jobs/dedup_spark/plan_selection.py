"""Selects the plan of each date of the new generation, with a reason, from names and ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.absent_rows import replacing_snapshots
from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.manifest import DateEntry, DateOutcome
from dedup_clone.contract.table import Absent, UpdateIdMode
from dedup_spark.landing.deliveries import Deliveries
from dedup_spark.parent import Parent
from dedup_spark.plans.date_task import DateTask, MergePolicy, Outcome, WrittenDate
from dedup_spark.plans.delivered_date import DeliveredDate, DeliveriesByDate, deliveries_by_date


@dataclass(frozen=True)
class DatePlan:
    """The plan of one date. `outcome`: the plan's name in the manifest. `reason`: why the date takes it.

    `task`: of plan adopt or rewrite; None for other plans, and after a plan declined the date.
    """

    outcome: DateOutcome
    reason: str
    task: DateTask | None = None

    def after(self, outcome: Outcome) -> DatePlan:
        """The plan after its task has ended with this outcome. For a declined date it is window."""
        if isinstance(outcome, WrittenDate):
            return replace(self, reason="; ".join(filter(None, (self.reason, outcome.how))))
        if self.outcome is DateOutcome.ADOPT:
            return DatePlan(DateOutcome.WINDOW, f"not adopted: {outcome}")
        return _rewrite(self.reason, outcome)


def _rewrite(reason: str, not_rewritten_reason: str | None) -> DatePlan:
    """Plan rewrite; plan window, with both reasons, if there is a reason why rewrite cannot write the date."""
    if not_rewritten_reason is None:
        return DatePlan(DateOutcome.REWRITE, reason)
    if not_rewritten_reason not in reason:
        reason = f"{reason}; not rewritten: {not_rewritten_reason}"
    return DatePlan(DateOutcome.WINDOW, reason)


_ASKED_FOR = "asked for: the date is written anew"
_COPIED_FORWARD = DatePlan(DateOutcome.COPIED_FORWARD, "no applied delivery has this date")
_COPIED_FOR_ERASURE = DatePlan(DateOutcome.COPIED_FORWARD, "the parent's rows")
_NEWER_STAYS = DatePlan(DateOutcome.UNCHANGED, "a newer snapshot has the date, whose rows stay")
_UNCHANGED = DatePlan(DateOutcome.UNCHANGED, "every delivery asked for is part of the parent already: nothing was read")


def applied_by_date(deliveries: Deliveries, parent: Parent) -> DeliveriesByDate:
    """The deliveries that a publish applies to each date, in ascending precedence; none to a date that keeps its rows.

    If rows that the newest snapshot lacks are deleted, that is only the newest delivery of a date, and only if no newer
    snapshot has the date. A date that neither the deliveries nor the parent keep is absent.
    """
    found, attempt = deliveries_by_date(deliveries), deliveries.attempt
    if attempt.table.absent_keys is Absent.KEEP:
        return found
    ids = {day: [dated.delivery.snapshot_id for dated in of_date] for day, of_date in found.items()}
    only_some_dates = attempt.dates is not None
    winners = replacing_snapshots(attempt.table, ids, parent.dates, parent.newest_id, only_some_dates=only_some_dates)
    return {
        day: tuple(dated for dated in of_date if dated.delivery.snapshot_id == winners[day])
        for day, of_date in found.items()
        if day in winners
    }


def _dates(attempt: Attempt, delivered: DeliveriesByDate, parent: Parent) -> list[date]:
    """The dates of the new generation: the parent's, too, unless dates that the newest snapshot lacks are deleted."""
    is_whole = attempt.dates is None and any(delivered.values())
    if attempt.table.absent_dates is Absent.DELETE and is_whole:
        return sorted(delivered)
    return sorted(delivered.keys() | parent.dates.keys())


def select_plans(attempt: Attempt, delivered: DeliveriesByDate, parent: Parent) -> dict[date, DatePlan]:
    """Return the plan of every date of the parent and of the applied deliveries, ascending. No file is read."""
    plans = {}
    for day in _dates(attempt, delivered, parent):
        of_date = delivered.get(day)
        if of_date:
            plan = _select(attempt, of_date, parent.dates.get(day))
            plans[day] = _with_task(attempt, day, plan, of_date, parent)
        else:
            plans[day] = _COPIED_FORWARD if of_date is None else _NEWER_STAYS
    return plans


def _with_task(
    attempt: Attempt, day: date, plan: DatePlan, delivered: Sequence[DeliveredDate], parent: Parent
) -> DatePlan:
    """The same plan with its task, if it is adopt or rewrite. `delivered`: in ascending precedence."""
    of_parent = parent.on_date(day)
    if plan.outcome is DateOutcome.ADOPT:
        return replace(plan, task=DateTask(day, tuple(delivered), of_parent))
    if plan.outcome is not DateOutcome.REWRITE:
        return plan
    policy = MergePolicy.IN_ORDER
    if of_parent and attempt.update_id_mode is UpdateIdMode.LAST_CHANGED:
        policy = MergePolicy.BY_VALUE
    elif of_parent and delivered[-1].delivery.snapshot_id < of_parent.entry.max_update_id:
        policy = MergePolicy.LATE
    return replace(plan, task=DateTask(day, tuple(delivered), of_parent, is_adopted=False, policy=policy))


def copying_plans(attempt: Attempt, parent: Parent) -> dict[date, DatePlan] | None:
    """Return the plans of an attempt that reads no landed file; None if the attempt may change dates by deliveries.

    An erasure copies all files, and erased rows are removed afterwards. An attempt changes nothing if the parent
    contains every requested delivery, unless it asks for a plan that always writes, retains days that the parent has
    dropped, or has a delivery that validation refuses as late.
    """
    if attempt.erases:
        return dict.fromkeys(sorted(parent.dates), _COPIED_FOR_ERASURE)
    if attempt.plan not in (Plan.AUTO, Plan.ADOPT) or attempt.retention_day < parent.complete_since:
        return None
    requested = attempt.deliveries
    # Of the deliveries that the parent contains, only the one with the newest id is not late.
    is_late = any(delivery.snapshot_id != parent.newest_id for delivery in requested)
    if is_late and attempt.update_id_mode is UpdateIdMode.LAST_CHANGED:
        return None
    return dict.fromkeys(sorted(parent.dates), _UNCHANGED) if parent.deliveries.issuperset(requested) else None


def _select(attempt: Attempt, delivered: Sequence[DeliveredDate], parent_entry: DateEntry | None) -> DatePlan:
    """Return the plan of one date, without its task. `delivered`: the applied deliveries that have the date."""
    if attempt.plan is Plan.WINDOW:
        return DatePlan(DateOutcome.WINDOW, _ASKED_FOR)
    if attempt.plan is Plan.REWRITE:
        return _rewrite(_ASKED_FOR, _not_rewritten_reason(attempt, delivered))
    not_adopted_reason = _not_adopted_reason(attempt, delivered, parent_entry)
    if not_adopted_reason is None:
        return DatePlan(DateOutcome.ADOPT, "")
    return _rewrite(f"not adopted: {not_adopted_reason}", _not_rewritten_reason(attempt, delivered))


def _not_adopted_reason(
    attempt: Attempt, delivered: Sequence[DeliveredDate], parent_entry: DateEntry | None
) -> str | None:
    """Return why plan adopt cannot handle the date; None if it can."""
    if attempt.update_id_mode is not UpdateIdMode.LAST_SEEN:
        return f"update_id mode [{attempt.update_id_mode}] compares values"
    newest = delivered[-1].delivery
    # The newest delivery must win against all rows of the parent's date.
    if parent_entry and newest.snapshot_id < parent_entry.max_update_id:
        return f"snapshot id [{newest.snapshot_id}] is below [{parent_entry.max_update_id}], the date's highest"
    return _several_dates_reason(delivered)


def _not_rewritten_reason(attempt: Attempt, delivered: Sequence[DeliveredDate]) -> str | None:
    """Return why plan rewrite cannot write the date; None if it can."""
    if attempt.exact and attempt.update_id_mode is UpdateIdMode.LAST_CHANGED:  # plan rewrite compares hashes of values
        return "values are compared themselves, as asked for"
    if len(delivered) > 1:
        return f"[{len(delivered)}] deliveries have the date"
    return _several_dates_reason(delivered)


def _several_dates_reason(delivered: Sequence[DeliveredDate]) -> str | None:
    """Return that a file of the date has rows of other dates, too; None if there is no such file."""
    for file in (file for dated in delivered for file in dated.files):
        if file.date_count > 1:
            return f"file [{file.uri}] holds [{file.date_count}] dates"
    return None
