"""Which plan a date takes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest

from dedup_clone.contract.attempt import Plan
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DateEntry, DateOutcome
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.generation import assemble_generation
from dedup_spark.landing.file_validation import FileValidation, LandedFile
from dedup_spark.parent import Parent, ParentDate
from dedup_spark.plan_selection import DatePlan, copying_plans, select_plans
from dedup_spark.plans.delivered_date import DeliveredDate, DeliveredFile
from testkit.table_contracts import PRODUCTS

BOTH, NEW, OLD = date(2026, 1, 1), date(2026, 1, 2), date(2026, 1, 3)


def entry(day: date) -> DateEntry:
    return DateEntry(day, 1, 0, 0, 0, 0, DateOutcome.ADOPT, "", 1, 1, None, None, "")


def delivery(snapshot_id: int, *files: tuple[date, ...]) -> dict[date, DeliveredDate]:
    """The dates of a delivery with files that have these dates each."""
    found: defaultdict[date, list[DeliveredFile]] = defaultdict(list)
    for number, days in enumerate(files):
        landed = LandedFile(f"/b/f{number}", 1, snapshot_id, None)
        for day in days:
            found[day].append(DeliveredFile(landed, day, FileValidation(landed, dict.fromkeys(days, 1), ())))
    return {day: DeliveredDate(Delivery(snapshot_id, 1), tuple(of_date)) for day, of_date in found.items()}


def select(
    plan: Plan,
    *applied: dict[date, DeliveredDate],
    exact: bool = False,
    mode: UpdateIdMode = UpdateIdMode.LAST_SEEN,
) -> dict[date, DatePlan]:
    request: Any = SimpleNamespace(
        plan=plan, dates=None, exact=exact, update_id_mode=mode, takes_over=None, table=PRODUCTS
    )
    delivered: defaultdict[date, tuple[DeliveredDate, ...]] = defaultdict(tuple)
    for day, of_date in (item for dates_of_delivery in applied for item in dates_of_delivery.items()):
        delivered[day] += (of_date,)
    return select_plans(request, delivered, Parent("", {day: entry(day) for day in (BOTH, OLD)}, (), 1, 0))


def outcomes(plans: dict[date, DatePlan]) -> dict[date, str]:
    return {day: plan.outcome for day, plan in plans.items()}


def test_auto_adopts_delivered_dates_if_it_can_and_copies_the_others_forward() -> None:
    plans = select(Plan.AUTO, delivery(2, (BOTH,), (NEW, date(2026, 1, 4))))
    plans.pop(date(2026, 1, 4))
    assert outcomes(plans) == {BOTH: "adopt", NEW: "window", OLD: "copied forward"}
    assert plans[NEW].reason == "not adopted: file [/b/f1] holds [2] dates"
    assert list(plans) == sorted(plans)


@pytest.mark.parametrize("plan", [Plan.WINDOW, Plan.REWRITE])
def test_window_and_rewrite_write_every_delivered_date_anew(plan: Plan) -> None:
    plans = select(plan, delivery(2, (BOTH,), (NEW,)))
    assert outcomes(plans) == {BOTH: plan.value, NEW: plan.value, OLD: "copied forward"}


@pytest.mark.parametrize(
    ("applied", "options", "reason"),
    [
        ((delivery(2, (BOTH,)),), {}, None),
        ((delivery(2, (BOTH,)), delivery(3, (BOTH,))), {}, "[2] deliveries have the date"),
        ((delivery(2, (BOTH, NEW)),), {}, "file [/b/f0] holds [2] dates"),
        (
            (delivery(2, (BOTH,)),),
            {"exact": True, "mode": UpdateIdMode.LAST_CHANGED},
            "values are compared themselves, as asked for",
        ),
    ],
)
def test_a_date_that_cannot_be_rewritten_takes_plan_window(
    applied: tuple[dict[date, DeliveredDate], ...], options: dict[str, Any], reason: str | None
) -> None:
    plan = select(Plan.REWRITE, *applied, **options)[BOTH]
    asked = "asked for: the date is written anew"
    assert plan.outcome == ("window" if reason else "rewrite")
    assert plan.reason == (f"{asked}; not rewritten: {reason}" if reason else asked)


def test_a_date_that_its_plan_declined_takes_plan_window() -> None:
    declined = "repeated keys"
    adopted = select(Plan.AUTO, delivery(2, (BOTH,)), delivery(3, (BOTH,)))[BOTH].after(declined)
    assert (adopted.outcome, adopted.reason) == ("window", "not adopted: repeated keys")
    rewritten = select(Plan.REWRITE, delivery(2, (BOTH,)))[BOTH].after(declined)
    assert rewritten.outcome == "window"
    assert rewritten.reason == "asked for: the date is written anew; not rewritten: repeated keys"


def test_a_date_that_can_be_streamed_has_a_task_and_no_other() -> None:
    plans = select(Plan.REWRITE, delivery(2, (BOTH,), (NEW, date(2026, 1, 4))))
    assert [day for day, plan in plans.items() if plan.task] == [BOTH]


def test_a_date_that_the_parent_copied_forward_is_unchanged_in_a_replay_of_what_is_live() -> None:
    """It would be missing otherwise. The parent is as after a replay of one date alone."""
    replayed = Delivery(7, 1)
    request: Any = SimpleNamespace(
        erases="", plan=Plan.AUTO, retention_day=BOTH, deliveries=(replayed,), update_id_mode=UpdateIdMode.LAST_SEEN
    )
    request.table = PRODUCTS
    entries = {
        BOTH: replace(entry(BOTH), plan=DateOutcome.COPIED_FORWARD),
        NEW: replace(entry(NEW), plan=DateOutcome.REWRITE),
    }
    parent = Parent("", entries, (), 7, 0, deliveries=frozenset([replayed]), complete_since=BOTH)
    plans = copying_plans(request, parent)
    assert plans is not None
    generation = assemble_generation(request, plans, {}, {}, parent)
    assert [e.plan for e in generation.dates] == [DateOutcome.UNCHANGED, DateOutcome.REWRITE]


@pytest.mark.parametrize(
    ("new", "changed", "expected"),
    [(10, 5, 30), (10, None, 20), (0, 0, 0), (125, 0, 250), (126, 0, 0), (1000, 0, 0), (990, 0, 0)],
)
def test_a_publish_of_which_most_rows_differed_says_nothing_about_the_next_one(
    new: int, changed: int | None, expected: int
) -> None:
    """Otherwise the next sketch of the date would be as large as its rows."""
    parent = ParentDate("/data", (), replace(entry(BOTH), rows=1000, new_keys=new, changed=changed))
    assert parent.differing_rows == expected
