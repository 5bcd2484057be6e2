"""Runs plan adopt over its dates: in threads on the driver when they are small, as Spark tasks when they are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import SparkSession

from dedup_clone.contract.request import DedupRequest
from dedup_spark.adopt.applicability import Applied, date_orders
from dedup_spark.adopt.date import AdoptDate
from dedup_spark.adopt.differences import Limits
from dedup_spark.adopt.orders import AdoptedDate, DateOrder, DeclinedDate
from dedup_spark.fan_out import few_for_the_driver
from dedup_spark.parent import Parent
from dedup_spark.progress import DateProgress, DriverProgress

Outcome = AdoptedDate | DeclinedDate

_DRIVER_THREADS = 4
# Decoded keys held between two passes over the files: of one date in a task, of several dates on the driver.
_HELD_BYTES = 256 << 20
_DRIVER_HELD_BYTES = 64 << 20
LIMITS = Limits(rows=16 << 20, hashes=64 << 20)


@dataclass(frozen=True)
class _Reported:
    """Tells the driver of each date that is done."""

    adopt: AdoptDate
    finished: Callable[[date, int], None]

    def __call__(self, order: DateOrder) -> Outcome:
        outcome = self.adopt(order)
        self.finished(order.day, 0)
        return outcome


def run_adopt(
    session: Callable[[], SparkSession],
    request: DedupRequest,
    dates: set[date],
    applied: Applied,
    parent: Parent,
    say: Callable[[str], None],
) -> list[Outcome]:
    """`session` is asked for only when there is enough to do. Raises DeliveryRefused when landing changed."""
    orders = date_orders(dates, applied, parent)
    adopt = AdoptDate(request.table, request.data_uri, request.exact, request.compare_values, _HELD_BYTES, LIMITS)
    # Copies count too: each is a request, however small the file.
    items = sum(1 + len(order.newest.files) for order in orders)
    if few_for_the_driver(items, sum(order.bytes for order in orders)):
        return _on_driver(replace(adopt, held_bytes=_DRIVER_HELD_BYTES), orders, say)
    context = session().sparkContext
    context.setJobDescription(
        f"{request.feed} generation {request.generation}: adopt over {len(orders)} dates, compare keys and copy files"
    )
    progress = DateProgress(context, dict.fromkeys(dates, 1), say)
    task = _Reported(adopt, progress.reporter())
    with progress.reporting():
        return list(context.parallelize(orders, len(orders)).map(task).collect())


def _on_driver(adopt: AdoptDate, orders: Sequence[DateOrder], say: Callable[[str], None]) -> list[Outcome]:
    progress = DriverProgress({order.day: 1 for order in orders}, say)
    task = _Reported(adopt, progress.finished)
    with progress.reporting(), ThreadPoolExecutor(min(_DRIVER_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(task, orders))
