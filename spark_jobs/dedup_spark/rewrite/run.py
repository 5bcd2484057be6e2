"""Streams the dates of plan rewrite that can be streamed, and says why the others are left to Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date

from dedup_clone.contract.request import DedupRequest, Plan
from dedup_spark.adopt.orders import DateCost
from dedup_spark.adopt.over_dates import over_dates
from dedup_spark.choice import Choice
from dedup_spark.parent import Parent
from dedup_spark.rewrite.applicability import Applied, obstacle, rewrite_orders
from dedup_spark.rewrite.date import RewriteDate
from dedup_spark.rewrite.file_sizes import file_bytes
from dedup_spark.rewrite.first_look import RewriteLook
from dedup_spark.rewrite.orders import LeftToSpark, RewrittenDate
from dedup_spark.session import Spark


@dataclass(frozen=True)
class Streamed:
    """`choices` of all dates of the plan, with their reasons; those not in `rewritten` are left to Spark.

    `costs` are of dates that were looked at in vain.
    """

    choices: dict[date, Choice]
    rewritten: dict[date, RewrittenDate]
    costs: dict[date, DateCost]


def streamable(
    request: DedupRequest, choices: Mapping[date, Choice], applied: Applied, declined: Collection[date] = ()
) -> dict[date, Choice]:
    """The dates of plan rewrite that are tried. `declined` are those that another plan has looked at already."""
    return {
        day: choice
        for day, choice in choices.items()
        if choice.plan == Plan.REWRITE and day not in declined and obstacle(request, day, applied) is None
    }


def run_rewrite(
    spark: Spark,
    request: DedupRequest,
    choices: Mapping[date, Choice],
    applied: Applied,
    parent: Parent,
    looked: RewriteLook,
    say: Callable[[str], None],
    declined: Collection[date] = (),
) -> Streamed:
    """Spark is asked for only when there is enough to do. What `looked` found and nobody takes is deleted here."""
    mine = {day: choice for day, choice in choices.items() if choice.plan == Plan.REWRITE and applied}
    after = {day: _by_spark(choice, obstacle(request, day, applied)) for day, choice in mine.items()}
    orders = rewrite_orders(request, streamable(request, mine, applied, declined), applied, parent)
    outcomes = looked.take(orders)
    size = file_bytes(request, max((examined.bytes for examined in applied), default=0), parent)

    def work(held_bytes: int) -> RewriteDate:
        return RewriteDate(request.table, request.data_uri, size, held_bytes)

    rest = [order for order in orders if order.day not in outcomes]
    where = f"{request.feed} generation {request.generation}"
    made = over_dates(spark, work, rest, f"{where}: rewrite, compare and write rows", say)
    outcomes |= {outcome.day: outcome for outcome in made}
    rewritten: dict[date, RewrittenDate] = {}
    costs: dict[date, DateCost] = {}
    for day, outcome in outcomes.items():
        if isinstance(outcome, LeftToSpark):
            costs[day] = outcome.cost
            after[day] = _by_spark(mine[day], outcome.reason)
        else:
            rewritten[day] = outcome
            after[day] = Choice(Plan.REWRITE, f"{mine[day].reason}; {outcome.how}")
    return Streamed(after, rewritten, costs)


def _by_spark(choice: Choice, obstacle: str | None) -> Choice:
    known = obstacle is None or obstacle in choice.reason
    return choice if known else Choice(choice.plan, f"{choice.reason}; written by Spark: {obstacle}")
