"""What the fused scan finds out about one date: a small record that a Spark task returns to the driver."""

from __future__ import annotations

from dataclasses import dataclass

from dedup_spark.landing.file_validation import FileValidation
from dedup_spark.plans.adopt.adopt_task import AdoptOutcome, AdoptTask
from dedup_spark.plans.rewrite.rewrite_task import RewriteOutcome, RewriteTask

Task = AdoptTask | RewriteTask
Outcome = AdoptOutcome | RewriteOutcome


@dataclass(frozen=True)
class ScannedDate:
    """Validations of a date's files.

    `found`: the task of the presumed plan, with the numbers of rows that the scan counted, and the outcome of that
    task. None if the date could not be scanned.
    """

    validations: tuple[FileValidation, ...]
    found: tuple[Task, Outcome] | None
