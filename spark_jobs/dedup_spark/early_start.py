"""Starts Spark before the job's own code is imported, where request and inventories say that it will be needed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext

from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.fan_out import few_for_the_driver
from dedup_spark.orders import read_arrivals
from dedup_spark.session import Spark, starting_early

ONLY_BY_SPARK = (Plan.WINDOW, Plan.ANTIJOIN)


def what_is_needed_starts(spark: Spark, request: DedupRequest) -> AbstractContextManager[None]:
    """Inside the block Spark starts beside whatever goes on. Raises ContractViolation for a wrong inventory."""
    if request.plan in ONLY_BY_SPARK or (request.exact and request.update_id_mode is UpdateIdMode.LAST_CHANGED):
        return starting_early(spark.session)
    landed = [landed for arrival in read_arrivals(request) for landed in arrival.objects]
    # The parent's rows are compared too, and a whole snapshot is about as large as its parent.
    sides = 1 if request.parent is None else 2
    if few_for_the_driver(len(landed), sides * sum(one.size for one in landed)):
        return nullcontext()
    return starting_early(lambda: start_workers(spark))


def start_workers(spark: Spark) -> None:
    """The context, and on every core a Python worker with its imports."""
    context = spark.context()
    cores = context.defaultParallelism
    context.setJobDescription("start Python workers")
    context.parallelize(range(cores), cores).foreachPartition(_nothing)


def _nothing(_: Iterable[int]) -> None:
    pass
