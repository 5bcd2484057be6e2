"""Computes what the job read and wrote for the deliveries that it applied, in total and by date."""

from __future__ import annotations

from dedup_clone.contract.manifest import DateMetrics, DedupMetrics, DeliveryMetrics
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.plans.written_date import WrittenDates


def delivery_metrics(delivery: ValidatedDelivery, written: WrittenDates) -> DeliveryMetrics:
    """Return how many rows the delivery has, and how many of them are too old or surplus."""
    rows, snapshot_id = sum(delivery.rows_by_date.values()), delivery.delivery.snapshot_id
    surplus_rows = sum(date_written.surplus_rows.get(snapshot_id, 0) for date_written in written.values())
    return DeliveryMetrics(delivery.delivery, rows, rows - sum(delivery.retained_rows.values()), surplus_rows)


def dedup_metrics(
    applied: tuple[ValidatedDelivery, ...], written: WrittenDates, seconds: dict[str, float]
) -> DedupMetrics:
    """Return the cost of the job: one read of each landed file for its validation, and the cost of each date.

    `seconds`: how long each phase of the job took. Not counted: refused deliveries, what plan window reads of landed
    files, and what the job reads and writes for erasures, the table of changes, and dates without new files.
    """
    costs = ((day, date_written.cost) for day, date_written in sorted(written.items()))
    by_date = tuple(DateMetrics(day, cost.bytes_read, cost.bytes_written, cost.seconds) for day, cost in costs)
    return DedupMetrics(
        bytes_read=sum(validated.bytes for validated in applied) + sum(metrics.bytes_read for metrics in by_date),
        bytes_written=sum(metrics.bytes_written for metrics in by_date),
        seconds=dict(seconds),
        dates=by_date,
    )
