"""Starts Spark beside the examination, where request and inventories alone say that it will be needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import DedupRequest, Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark.fan_out import few_for_the_driver
from dedup_spark.session import Spark, starting_early

ONLY_BY_SPARK = (Plan.WINDOW, Plan.ANTIJOIN)


def what_is_needed_starts(
    spark: Spark, request: DedupRequest, arrivals: Sequence[Arrival]
) -> AbstractContextManager[None]:
    """Inside the block Spark starts beside whatever goes on, and no more of it than is needed."""
    if request.plan in ONLY_BY_SPARK or (request.exact and request.update_id_mode is UpdateIdMode.LAST_CHANGED):
        return starting_early(spark.session)
    landed = [landed for arrival in arrivals for landed in arrival.objects]
    # The parent's rows are compared too, and a whole snapshot is about as large as its parent.
    sides = 1 if request.parent is None else 2
    if few_for_the_driver(len(landed), sides * sum(one.size for one in landed)):
        return nullcontext()
    return starting_early(spark.context)
