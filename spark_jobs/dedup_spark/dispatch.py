"""Runs the plans of dates: first adopt and rewrite, then window, which also writes what the others decline.

Plans are selected from names and ids alone, and landed files are validated by the tasks that read them. Then plans are
selected again, for the deliveries that are valid. An outcome counts if its date has the same task as before; other
outcomes are deleted, and only these dates run again.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Arrival
from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.comparison.validating_reader import ValidatingReader
from dedup_spark.execution.date_fan_out import KEY_CACHE_BYTES, largest_first
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.execution.job_log import JobLog
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.landing.delivery_validation import ValidatedDelivery, expected_deliveries, validate_files
from dedup_spark.landing.file_validation import FileValidation, FileValidator, LandedFile
from dedup_spark.output.file_sizes import target_file_bytes
from dedup_spark.parent import Parent
from dedup_spark.plan_selection import DatePlan, select_plans
from dedup_spark.plans.adopt.adopt_date import AdoptDate
from dedup_spark.plans.adopt.adopt_task import AdoptTask
from dedup_spark.plans.date_tasks import Task, run_tasks_of_dates
from dedup_spark.plans.rewrite.rewrite_date import RewriteDate
from dedup_spark.plans.window.window_plan import run_window_plan
from dedup_spark.plans.written_date import Outcome, WrittenDate, WrittenDates
from dedup_spark.sketch import stored

_logger = logging.getLogger("dedup_spark")


@dataclass(frozen=True)
class DateResult:
    """What a Spark task returns for a date: validations of the files that no task had read before, and the outcome.

    The outcome comes with the task as it is once its rows are counted. Both are None if the work failed before the
    files were known to be valid, or if the newest delivery has no row of the date.
    """

    validations: tuple[FileValidation, ...]
    task_and_outcome: tuple[Task, Outcome] | None


@dataclass(frozen=True)
class RunDate:
    """Runs the task of one date, and validates those of its files that have not been validated yet."""

    adopt: AdoptDate
    rewrite: RewriteDate
    validator: FileValidator

    def __call__(self, task: Task) -> DateResult:
        """Run the task. If it fails, validate the files one by one: the cause is reported for the file, or next time.

        Raises what the plan raises if all files are valid already.
        """
        landed = {file.uri: file for delivered in task.deliveries for file in delivered.unread_files(task.day)}
        reader = ValidatingReader(self.adopt.table, validator=self.validator, landed=landed)
        found: tuple[Task, Outcome] | None = None
        try:
            found = self.adopt(task, reader) if isinstance(task, AdoptTask) else self.rewrite(task, reader)
        except Exception as error:
            if not landed:
                raise
            _logger.warning("date [%s] may run again: %s: %s", task.day, type(error).__name__, error)
        if self.adopt.parts:  # on the driver: `DateRuns.validate` has the remaining files validated in Spark tasks
            return DateResult(tuple(reader.validations.values()), found)
        validations = (reader.validations.get(uri) or self.validator(file) for uri, file in landed.items())
        return DateResult(tuple(validations), found)

    def with_parts(self, parts: PartTasks) -> RunDate:
        """Return the same work, to be called on the driver, with the files of a large date read in several tasks."""
        return replace(self, adopt=replace(self.adopt, parts=parts))


@dataclass
class DateRuns:
    """Runs the tasks of dates of one job, and keeps their outcomes. `file_bytes`: the target size of a written file."""

    attempt: Attempt
    arrivals: Sequence[Arrival]
    parent: Parent
    seed: Seed
    session: SessionSource
    job_log: JobLog
    file_bytes: int = 0
    _outcomes: dict[Task, Outcome] = field(default_factory=dict)

    def validate(self, files: Sequence[LandedFile]) -> list[FileValidation]:
        """Run the dates as if all files were valid. Return a validation of each file, in any order.

        Without date folders the dates of files are not known before the files are read, so no date runs.
        """
        self.file_bytes = target_file_bytes(self.attempt.file_bytes, files, self.parent)
        validations: list[FileValidation] = []
        if all(file.folder_date for file in files):
            expected = expected_deliveries(self.attempt, self.arrivals, files)
            validations = self.run(select_plans(self.attempt, expected, self.parent), "validate and compare")
        validated_uris = {validation.file.uri for validation in validations}
        remaining = [file for file in files if file.uri not in validated_uris]
        return validations + validate_files(self.attempt, remaining, FanOut(self.session))

    def run(self, plans: Mapping[date, DatePlan], step: str) -> list[FileValidation]:
        """Run the tasks of these plans that have no outcome yet. Return validations of the files that were first read.

        What other tasks wrote before is deleted.
        """
        tasks: list[Task] = largest_first(plan.task for plan in plans.values() if plan.task)
        for task in self._outcomes.keys() - set(tasks):
            self._delete(task, self._outcomes.pop(task))
        work = RunDate(
            AdoptDate.from_attempt(self.attempt, self.seed, KEY_CACHE_BYTES),
            RewriteDate.from_attempt(self.attempt, self.seed, self.file_bytes, KEY_CACHE_BYTES),
            FileValidator.from_attempt(self.attempt),
        )
        remaining = [task for task in tasks if task not in self._outcomes]
        description = f"{self.attempt.feed} generation {self.attempt.generation}: {step}"
        results = run_tasks_of_dates(self.session, work, remaining, description, self.attempt.data_uri, self.job_log)
        self._outcomes.update(result.task_and_outcome for result in results if result.task_and_outcome)
        return [validation for result in results for validation in result.validations]

    def _delete(self, task: Task, outcome: Outcome) -> None:
        files = (outcome.files or ()) if isinstance(outcome, WrittenDate) else ()
        for path in (*(file.path for file in files), stored.path_of(task.day)):
            storage.delete(storage.join(self.attempt.data_uri, path))

    def finish(
        self, plans: Mapping[date, DatePlan], applied: tuple[ValidatedDelivery, ...]
    ) -> tuple[dict[date, DatePlan], WrittenDates]:
        """Run what is left of these plans. Return the plan that each date finally took, and what the plans wrote."""
        self._log_not_adopted(plans)
        with self.job_log.phase("deduplicate"):
            self.run(plans, "compare and write")
        final = dict(plans)
        for task, outcome in self._outcomes.items():
            final[task.day] = plans[task.day].after(outcome)
        written = {o.day: o for o in self._outcomes.values() if isinstance(o, WrittenDate)}
        return final, {**written, **self._run_window(final, applied)}

    def _run_window(self, plans: Mapping[date, DatePlan], applied: tuple[ValidatedDelivery, ...]) -> WrittenDates:
        """Write the dates of plan window."""
        days = {day for day, plan in plans.items() if plan.outcome is DateOutcome.WINDOW}
        if not days:
            return {}
        with self.job_log.phase(DateOutcome.WINDOW):
            self.job_log.expect_dates(len(days))
            with self.job_log.dates_at_work(len(days)):
                found = run_window_plan(self.session(), self.attempt, days, applied, self.parent, self.file_bytes)
        return {w.day: replace(w, key_fingerprint=self._unchanged_fingerprint(w.day, applied)) for w in found}

    def _log_not_adopted(self, plans: Mapping[date, DatePlan]) -> None:
        """Log how many dates have a slower plan than adopt, and the most frequent reason, with the number of its dates.

        Some of these dates may have been rewritten already.
        """
        slower = [plan for plan in plans.values() if plan.outcome in (DateOutcome.REWRITE, DateOutcome.WINDOW)]
        if slower:
            ((reason, count),) = Counter(plan.reason for plan in slower).most_common(1)
            window_count = sum(plan.outcome is DateOutcome.WINDOW for plan in slower)
            self.job_log.info(
                f"[{len(slower)}] dates take longer than adopting them would, [{window_count}] of them by plan window; "
                f"[{count}]: {reason}"
            )

    def _unchanged_fingerprint(self, day: date, applied: tuple[ValidatedDelivery, ...]) -> str | None:
        """Return the digest of the parent's key fingerprint of a date of plan window, if it still holds, else None.

        The fingerprint covers only the rows with the date's highest update_id. They do not change if all applied
        deliveries of the date have lower snapshot ids.
        """
        entry = self.parent.dates.get(day)
        if self.attempt.update_id_mode is not UpdateIdMode.LAST_SEEN or entry is None:
            return None
        ids = [validated.delivery.snapshot_id for validated in applied if day in validated.retained_rows]
        return entry.key_fingerprint if all(snapshot_id < entry.max_update_id for snapshot_id in ids) else None
