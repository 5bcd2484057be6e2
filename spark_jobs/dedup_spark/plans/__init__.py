"""The plans: each turns the sources into marked rows for the writer. A further plan is one more module here."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from dedup_clone.contract.request import Plan
from dedup_spark.plans import antijoin, window
from dedup_spark.sources import Sources

PLANS: dict[Plan, Callable[[Sources], DataFrame]] = {
    Plan.WINDOW: window.resolve,
    Plan.ANTIJOIN: antijoin.resolve,
    # Dates of plan rewrite that cannot be streamed (`dedup_spark.rewrite`).
    Plan.REWRITE: antijoin.resolve,
}
