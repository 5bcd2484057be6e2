"""Computes what the job read and wrote for the deliveries that it applied, in total and by date."""

from __future__ import annotations

from datetime import date

from dedup_clone.contract.manifest import DateMetrics, DedupMetrics
from dedup_spark.candidate.new_manifest import PlanResults
from dedup_spark.landing.delivery_validation import ValidatedDelivery


def dedup_metrics(
    applied: tuple[ValidatedDelivery, ...], results: PlanResults, seconds: dict[str, float]
) -> DedupMetrics:
    """Return the cost of the job: one read of each landed file for its validation, and the cost of each date.

    `seconds`: how long each phase of the job took. Not counted: refused deliveries, what plan window reads of landed
    files, and what the job reads and writes for erasures, the table of changes, and dates without new files.
    """
    by_date = tuple(_date_metrics(day, results) for day in sorted(results.written))
    return DedupMetrics(
        bytes_read=sum(validated.bytes for validated in applied) + sum(metrics.bytes_read for metrics in by_date),
        bytes_written=sum(metrics.bytes_written for metrics in by_date),
        seconds=dict(seconds),
        dates=by_date,
    )


def _date_metrics(day: date, results: PlanResults) -> DateMetrics:
    """The cost of one date. If a plan declined the date, the bytes of its work are included, its seconds are not."""
    cost, declined = results.written[day].cost, results.declined.get(day)
    if declined is None:
        return DateMetrics(day, cost.bytes_read, cost.bytes_written, cost.seconds)
    declined_cost = declined.cost
    return DateMetrics(
        day, declined_cost.bytes_read + cost.bytes_read, declined_cost.bytes_written + cost.bytes_written, cost.seconds
    )
