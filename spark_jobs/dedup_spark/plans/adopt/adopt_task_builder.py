"""Builds the tasks of plan adopt: one for each date, with the date's deliveries and the parent's files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import date
from statistics import median

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.manifest import DateEntry
from dedup_spark.execution.date_fan_out import AnyDateTask
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.parent import Parent
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.delivered_date import DeliveredDate, deliveries_by_date

# A date of at least this many times the median size, and of at least _MIN_LARGE_BYTES, is read by several threads. With
# one thread it would end long after the others.
_LARGE_FACTOR = 4
_MIN_LARGE_BYTES = 1 << 30
_MAX_THREADS = 4


def adopt_tasks(dates: Iterable[date], applied: Sequence[ValidatedDelivery], parent: Parent) -> list[AdoptTask]:
    """Return one task for each date."""
    delivered = deliveries_by_date(dates, applied)
    return _with_threads([_task(day, found, parent) for day, found in delivered.items()])


def overrules_parent(newest: Delivery, parent_entry: DateEntry | None) -> bool:
    """Whether the rows of the date's newest delivery win against all rows of the parent's date.

    They do if the delivery's snapshot id is at least the highest update_id of the date. Only then is the date adopted.
    """
    return parent_entry is None or newest.snapshot_id >= parent_entry.max_update_id


def _task(day: date, delivered: Sequence[DeliveredDate], parent: Parent) -> AdoptTask:
    *older, newest = delivered
    return AdoptTask(day, newest, tuple(older), parent.on_date(day))


def _with_threads(tasks: Sequence[AdoptTask]) -> list[AdoptTask]:
    """Return the same tasks with the number of threads that each should have."""
    median_bytes = median(task.bytes for task in tasks) if tasks else 0
    return [replace(task, threads=_threads(task, median_bytes)) for task in tasks]


def _threads(task: AdoptTask, median_bytes: float) -> int:
    return _MAX_THREADS if task.bytes >= max(_MIN_LARGE_BYTES, _LARGE_FACTOR * median_bytes) else 1


def with_spare_threads(task: AnyDateTask, threads: int) -> AnyDateTask:
    """Return a task of plan adopt with `threads` threads, at most 4 and not fewer than before; other tasks as is."""
    if not isinstance(task, AdoptTask):
        return task
    return replace(task, threads=max(task.threads, min(threads, _MAX_THREADS)))
