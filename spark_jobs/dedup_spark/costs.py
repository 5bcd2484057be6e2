"""What the job read and wrote, as a whole and by date."""

from __future__ import annotations

from datetime import date

from dedup_clone.contract.manifest import DateMetrics, DedupMetrics
from dedup_spark.adopt.orders import DateCost
from dedup_spark.generation import Generation, Results
from dedup_spark.landing.examination import ExaminedDelivery
from dedup_spark.parent import Parent


def metrics_of(
    applied: tuple[ExaminedDelivery, ...],
    generation: Generation,
    results: Results,
    parent: Parent,
    seconds: dict[str, float],
) -> DedupMetrics:
    """The examination reads each landed file once; what a date costs comes on top."""
    held = parent.bytes_by_date()
    by_date = tuple(
        _date_metrics(entry.date, results, held.get(entry.date, 0))
        for entry in generation.dates
        if entry.date in results.dates
    )
    return DedupMetrics(
        bytes_read=sum(examined.bytes for examined in applied) + sum(metrics.bytes_read for metrics in by_date),
        bytes_written=sum(metrics.bytes_written for metrics in by_date),
        seconds=dict(seconds),
        dates=by_date,
    )


def _date_metrics(day: date, results: Results, held_bytes: int) -> DateMetrics:
    """A date that was declined cost twice: the look at its keys, and the plan that wrote it."""
    rewritten = results.rewritten.get(day)
    cost = rewritten.cost if rewritten else results.costs.get(day, DateCost(0, 0, 0.0))
    if rewritten or day in results.adopted:
        return DateMetrics(day, cost.bytes_read, cost.bytes_written, cost.seconds)
    written = sum(record.file.size for record in results.written if record.file.date == day)
    return DateMetrics(day, cost.bytes_read + held_bytes, cost.bytes_written + written, None)
