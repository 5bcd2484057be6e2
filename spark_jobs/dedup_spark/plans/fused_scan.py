"""Validates landed files and runs a presumed task for each date in one pass, before it is known which files are valid.

A presumed task is the task that the date will have if every delivery is applied. Its outcome is used only if the same
task is selected after validation. All other outcomes are deleted, and the selected plans handle these dates again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.comparison.validating_reader import ValidatingReader
from dedup_spark.execution.date_fan_out import KEY_CACHE_BYTES, largest_first
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.execution.job_log import JobLog
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints import stored
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.landing.delivery_validation import validate_files
from dedup_spark.landing.file_validation import FileValidation, FileValidator, LandedFile
from dedup_spark.output.file_sizes import target_file_bytes
from dedup_spark.parent import Parent
from dedup_spark.plans.adopt.adopt_date import AdoptDate
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.adopt.adopt_task_builder import presumed_adopt_tasks
from dedup_spark.plans.date_tasks import run_tasks_of_dates
from dedup_spark.plans.delivered_date import presumed_deliveries
from dedup_spark.plans.rewrite.rewrite_date import RewriteDate
from dedup_spark.plans.rewrite.rewrite_task_builder import presumed_rewrite_tasks
from dedup_spark.plans.scanned_date import Outcome, ScannedDate, Task
from dedup_spark.plans.written_date import WrittenDate

_logger = logging.getLogger("dedup_spark")


@dataclass(frozen=True)
class ScanDate:
    """Runs one presumed task and validates its files."""

    adopt: AdoptDate
    rewrite: RewriteDate
    validator: FileValidator

    def __call__(self, presumed: Task) -> ScannedDate:
        """Scan the date. If the scan fails, validate the files one by one, without an outcome."""
        landed = {file.uri: file for delivered in presumed.deliveries for file in delivered.landed_files(presumed.day)}
        reader = ValidatingReader(self.adopt.table, validator=self.validator, landed=landed)
        task_and_outcome: tuple[Task, Outcome] | None = None
        try:
            if isinstance(presumed, AdoptTask):
                task_and_outcome = self.adopt.scan(presumed, reader)
            else:
                task_and_outcome = self.rewrite.scan(presumed, reader)
        except Exception as error:  # the validation below or the selected plan reports the cause
            _logger.info("date [%s] is left to its plan: %s: %s", presumed.day, type(error).__name__, error)
        if self.adopt.parts:  # on the driver: `FusedScan.validate` has the remaining files validated in Spark tasks
            return ScannedDate(tuple(reader.validations.values()), task_and_outcome)
        validations = (reader.validations.get(uri) or self.validator(file) for uri, file in landed.items())
        return ScannedDate(tuple(validations), task_and_outcome)

    def with_parts(self, parts: PartTasks) -> ScanDate:
        """Return a scan to be called on the driver, which reads the files of a large date in several Spark tasks."""
        return replace(self, adopt=replace(self.adopt, parts=parts))


@dataclass
class FusedScan:
    """Validates the landed files of a request, and keeps the outcomes of presumed tasks until `claim` is called."""

    request: DedupRequest
    arrivals: Sequence[Arrival]
    parent: Parent
    seed: Seed
    session: SessionSource
    job_log: JobLog
    _outcomes: dict[Task, Outcome] = field(default_factory=dict)

    def validate(self, files: Sequence[LandedFile]) -> list[FileValidation]:
        """Run the presumed tasks, and keep their outcomes. Return a validation of each file, in any order."""
        inputs = (self.request, presumed_deliveries(self.request, self.arrivals, files), self.parent)
        tasks: list[Task] = largest_first([*presumed_adopt_tasks(*inputs), *presumed_rewrite_tasks(*inputs)])
        file_bytes = target_file_bytes(self.request.file_bytes, files, self.parent)
        adopt = AdoptDate.from_request(self.request, self.seed, KEY_CACHE_BYTES)
        rewrite = RewriteDate.from_request(self.request, self.seed, file_bytes, KEY_CACHE_BYTES)
        scan = ScanDate(adopt, rewrite, FileValidator.from_request(self.request))
        description = f"{self.request.feed} generation {self.request.generation}: validate and compare"
        scanned = run_tasks_of_dates(self.session, scan, tasks, description, self.request.data_uri, self.job_log)
        self._outcomes = dict(
            scanned_date.task_and_outcome for scanned_date in scanned if scanned_date.task_and_outcome
        )
        validations = [validation for scanned_date in scanned for validation in scanned_date.validations]
        validated_uris = {validation.file.uri for validation in validations}
        remaining = [file for file in files if file.uri not in validated_uris]
        return validations + validate_files(self.request, remaining, FanOut(self.session))

    def claim(self, tasks: Iterable[Task]) -> dict[date, Outcome]:
        """Return, by date, the outcomes of these tasks; delete what all other presumed tasks wrote."""
        for task in self._outcomes.keys() - set(tasks):
            outcome = self._outcomes.pop(task)
            files = (outcome.files or ()) if isinstance(outcome, WrittenDate) else ()
            for path in (*(file.path for file in files), stored.path_of(task.day)):
                storage.delete(storage.join(self.request.data_uri, path))
        return {task.day: outcome for task, outcome in self._outcomes.items()}
