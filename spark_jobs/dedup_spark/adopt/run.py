"""Runs plan adopt over its dates, as far as the first look left them open, and copies what they adopt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dedup_clone.contract.manifest import DataFile
from dedup_clone.contract.request import DedupRequest
from dedup_spark.adopt.applicability import shared_by
from dedup_spark.adopt.copying import adopt_files
from dedup_spark.adopt.date import AdoptDate
from dedup_spark.adopt.differences import LIMITS
from dedup_spark.adopt.orders import AdoptedDate, DateOrder, Outcome
from dedup_spark.adopt.over_dates import over_dates
from dedup_spark.fan_out import FanOut
from dedup_spark.session import Spark


def run_adopt(
    spark: Spark,
    request: DedupRequest,
    orders: Sequence[DateOrder],
    known: Mapping[DateOrder, Outcome],
    say: Callable[[str], None],
) -> list[Outcome]:
    """`known` are outcomes of some orders already. Spark is asked for only when there is enough to do.

    Raises DeliveryRefused when landing changed.
    """
    rest = [order for order in orders if order not in known]
    where = f"{request.feed} generation {request.generation}"

    def work(held_bytes: int) -> AdoptDate:
        return AdoptDate.of(request, held_bytes, LIMITS)

    made = over_dates(spark, work, rest, f"{where}: adopt, compare keys", say, shared_by)
    outcomes = {**known, **dict(zip(rest, made, strict=True))}
    found = ((order, outcomes[order]) for order in orders)
    adopted = {order: outcome for order, outcome in found if isinstance(outcome, AdoptedDate)}
    copies = adopt_files(adopted, request.table.partition_column, request.data_uri, FanOut(spark))
    return [_with_copies(outcomes[order], copies.get(order.day, ())) for order in orders]


def _with_copies(outcome: Outcome, copies: tuple[DataFile, ...]) -> Outcome:
    return replace(outcome, files=(*copies, *outcome.files)) if isinstance(outcome, AdoptedDate) else outcome
