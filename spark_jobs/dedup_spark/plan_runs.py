"""Runs the chosen plans, date by date or many dates at once, and hands dates that adopt declines to the next plan."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.adopt.applicability import date_orders
from dedup_spark.adopt.first_look import FirstLook
from dedup_spark.adopt.orders import AdoptedDate, DateCost, DeclinedDate
from dedup_spark.adopt.run import run_adopt
from dedup_spark.choice import CARRIED, Choice, instead_of_adopt
from dedup_spark.early_start import ONLY_BY_SPARK
from dedup_spark.generation import Results
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.parent import Parent
from dedup_spark.progress import Facts
from dedup_spark.rewrite.first_look import RewriteLook
from dedup_spark.rewrite.run import run_rewrite, streamable
from dedup_spark.run_plan import WrittenFile, run_plan
from dedup_spark.session import Spark, starting_early


@dataclass(frozen=True)
class Looks:
    """What was found while the landed files were judged."""

    adopt: FirstLook
    rewrite: RewriteLook


def run_plans(
    spark: Spark,
    request: DedupRequest,
    applied: tuple[ExaminedDelivery, ...],
    choices: dict[date, Choice],
    parent: Parent,
    looked: Looks,
    facts: Facts,
) -> tuple[dict[date, Choice], Results]:
    """Returns the choices as they came out, and what was made. Spark is asked for only when it is needed.

    What `looked` found and nobody takes is deleted here.
    """
    adopted: dict[date, AdoptedDate] = {}
    fingerprints = _unchanged_fingerprints(request, applied, choices, parent)
    costs: dict[date, DateCost] = {}
    orders = date_orders(_dates_of(Plan.ADOPT, choices), applied, parent) if applied else []
    known = looked.adopt.take(orders)
    if orders:
        with facts.phase(Plan.ADOPT.value), _session_starts(spark, request, choices, applied):
            outcomes = run_adopt(spark, request, orders, known, facts.say)
        choices = dict(choices)
        for outcome in outcomes:
            costs[outcome.day] = outcome.cost
            if isinstance(outcome, DeclinedDate):
                choices[outcome.day] = instead_of_adopt(outcome.reason)
                if outcome.key_fingerprint is not None:
                    fingerprints[outcome.day] = outcome.key_fingerprint
            else:
                choices[outcome.day] = Choice(Plan.ADOPT, outcome.reason)
                adopted[outcome.day] = outcome
    declined = frozenset(costs.keys() - adopted.keys())
    with facts.phase(Plan.REWRITE.value), _session_starts(spark, request, choices, applied):
        streamed = run_rewrite(spark, request, choices, applied, parent, looked.rewrite, facts.say, declined)
    choices, rewritten, costs = {**choices, **streamed.choices}, streamed.rewritten, {**costs, **streamed.costs}
    written: list[WrittenFile] = []
    for plan in (*ONLY_BY_SPARK, Plan.REWRITE):
        dates = _dates_of(plan, choices) - rewritten.keys()
        if applied and dates:
            with facts.phase("start spark"):
                started = spark.session()
            with facts.phase(f"{plan.value} by spark"):
                written += run_plan(started, request, plan, dates, applied, parent, facts.say)
    return choices, Results(tuple(written), adopted, fingerprints, costs, rewritten, declined)


def _session_starts(
    spark: Spark, request: DedupRequest, choices: dict[date, Choice], applied: tuple[ExaminedDelivery, ...]
) -> AbstractContextManager[None]:
    """Beside what goes on in the block, where some date is left to Spark's rows."""
    by_spark = {day for day, choice in choices.items() if choice.plan in (*ONLY_BY_SPARK, Plan.REWRITE)}
    is_needed = bool(applied) and not by_spark <= streamable(request, choices, applied).keys()
    return starting_early(spark.session) if is_needed else nullcontext()


def _dates_of(plan: Plan, choices: dict[date, Choice]) -> set[date]:
    return {day for day, choice in choices.items() if choice.plan == plan}


def _unchanged_fingerprints(
    request: DedupRequest, applied: tuple[ExaminedDelivery, ...], choices: dict[date, Choice], parent: Parent
) -> dict[date, str]:
    """Of dates that only late snapshots touch: rows with the highest update_id stay as they are."""
    if request.update_id_mode is not UpdateIdMode.LAST_SEEN:
        return {}
    found = {}
    for day, choice in choices.items():
        before = parent.dates.get(day)
        if before is None or before.key_fingerprint is None or choice.plan in (CARRIED, Plan.ADOPT):
            continue
        ids = [examined.delivery.snapshot_id for examined in applied if day in examined.kept]
        if all(snapshot_id < before.max_update_id for snapshot_id in ids):
            found[day] = before.key_fingerprint
    return found
