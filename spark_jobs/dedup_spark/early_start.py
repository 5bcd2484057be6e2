"""Starts Spark during the examination, where request and inventories alone tell that it will be needed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import DedupRequest
from dedup_spark.execution.fan_out import few_for_the_driver
from dedup_spark.execution.session import Spark, starting_early
from dedup_spark.plan_selection import uses_only_dataframes


def starting_for(spark: Spark, request: DedupRequest, arrivals: Sequence[Arrival]) -> AbstractContextManager[None]:
    """Inside the block Spark starts in the background: a session, a context only, or nothing, as the request needs."""
    if uses_only_dataframes(request):
        return starting_early(spark.session)
    objects = [landed for arrival in arrivals for landed in arrival.objects]
    # The parent's rows are compared too, and a whole snapshot is about as large as its parent.
    inputs = 1 if request.parent is None else 2
    if few_for_the_driver(len(objects), inputs * sum(landed.size for landed in objects)):
        return nullcontext()
    return starting_early(spark.context)
