"""Records what the fused scan found out about one date. A Spark task returns this small record to the driver."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_spark.landing.file_validation import FileValidation
from dedup_spark.plans.adopt.adopt_task import AdoptOutcome, AdoptTask
from dedup_spark.plans.rewrite.rewrite_task import RewriteOutcome, RewriteTask

Task = AdoptTask | RewriteTask
Outcome = AdoptOutcome | RewriteOutcome


@dataclass(frozen=True)
class ScannedDate:
    """The validations of a date's files, and the outcome of its presumed task.

    The presumed task is the one that the date will have if every delivery is applied. `task_and_outcome`: this task,
    with the numbers of rows that the scan counted, and its outcome; None if the scan failed, or if the newest delivery
    has no row of the date.
    """

    validations: tuple[FileValidation, ...]
    task_and_outcome: tuple[Task, Outcome] | None
