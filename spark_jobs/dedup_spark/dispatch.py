"""Runs the plans of dates: first adopt and rewrite, then window, which also writes what the others decline.

Plans are selected from names and ids alone, and the tasks of dates validate the landed files that they read. If a
delivery is refused, the results of the dates that contain it are deleted, and only these dates run again, without it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import DateOutcome
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates
from dedup_spark.comparison.key_reader import ValidatingReader
from dedup_spark.data_files import target_file_bytes
from dedup_spark.execution.fan_out import map_objects, run_tasks
from dedup_spark.execution.progress import JobLog
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.landing.deliveries import Deliveries
from dedup_spark.landing.file_validation import FileValidation, FileValidator, LandedFile
from dedup_spark.parent import Parent
from dedup_spark.plan_selection import DatePlan, applied_by_date, select_plans
from dedup_spark.plans.adopt import adopt
from dedup_spark.plans.date_task import DateTask, Outcome, WrittenDate, WrittenDates
from dedup_spark.plans.delivered_date import DeliveriesByDate
from dedup_spark.plans.difference.comparison_inputs import open_inputs
from dedup_spark.plans.difference.differences import find_differences
from dedup_spark.plans.rewrite import Rewriter
from dedup_spark.plans.window.window_plan import run_window_plan
from dedup_spark.sketch import stored

_logger = logging.getLogger("dedup_spark")


@dataclass(frozen=True)
class DateResult:
    """What a Spark task returns for a date: validations of the files that no task had read before, and the outcome.

    The outcome is None if the work failed before the files were known to be valid, or if the newest delivery has no row
    of the date.
    """

    validations: tuple[FileValidation, ...]
    outcome: Outcome | None


@dataclass(frozen=True)
class RunDate:
    """Runs plan adopt or rewrite for one date, and validates those of its files that have not been validated yet.

    `file_bytes`: the target size of a file.
    """

    attempt: Attempt
    seed: Seed
    file_bytes: int
    validator: FileValidator

    def __call__(self, task: DateTask) -> DateResult:
        """Run the task. If it fails, validate the files one by one: the cause is reported for the file, or next time.

        Raises what the plan raises if all files are valid already.
        """
        landed = {file.uri: file for delivered in task.deliveries for file in delivered.unread_files}
        reader = ValidatingReader(self.attempt.table, validator=self.validator, landed=landed)
        outcome: Outcome | None = None
        try:
            outcome = self._outcome(task, reader)
        except Exception as error:
            if not landed:
                raise
            _logger.warning("date [%s] may run again: %s: %s", task.day, type(error).__name__, error)
        validations = (reader.validations.get(uri) or self.validator(file) for uri, file in landed.items())
        return DateResult(tuple(validations), outcome)

    def _outcome(self, task: DateTask, reader: ValidatingReader) -> Outcome | None:
        """Write the date's files and sketch below the data folder, or write nothing and leave the date to plan window.

        Return None if the newest delivery has no row. Raises UnsuitableFile or pyarrow's errors if a file cannot be
        used, and DeliveryRefused if a landed object has changed since the inventory was frozen.
        """
        rewriter = Rewriter(self.attempt, self.file_bytes)
        if not task.deliveries:
            return rewriter.sort_parent(task, reader)
        inputs = open_inputs(task, reader, self.seed, exact=self.attempt.exact)
        inputs = replace(inputs, task=task.with_validations(reader.validations))
        if not inputs.task.newest.rows:
            return None
        try:
            diff = find_differences(inputs, exact=self.attempt.exact)
        except TooManyDuplicates as error:
            return str(error)
        if task.is_adopted:
            return adopt(self.attempt, inputs, diff, reader)
        return rewriter.rewrite(inputs, diff, reader)


@dataclass
class DateRuns:
    """Runs the dates of one job, and keeps their outcomes. The validations of files are added to `deliveries`."""

    attempt: Attempt
    deliveries: Deliveries
    parent: Parent
    seed: Seed
    session: SessionSource
    job_log: JobLog
    _outcomes: dict[DateTask, Outcome] = field(default_factory=dict)

    def run(self) -> tuple[dict[date, DatePlan], WrittenDates]:
        """Run all dates. Return the plan that each finally took, and what the plans wrote.

        There are none if every delivery is refused.
        """
        with self.job_log.phase("examine"):
            if not all(file.folder_date for file in self.deliveries.files):
                self._validate(self.deliveries.unread_files)  # only the rows tell which dates there are
            self._run_tasks(self._plans(), "validate and compare")
            self._validate(self.deliveries.unread_files)
        plans = self._plans()
        self._log_not_adopted(plans)
        with self.job_log.phase("deduplicate"):
            self._run_tasks(plans, "compare and write")
        for task, outcome in self._outcomes.items():
            plans[task.day] = plans[task.day].after(outcome)
        written = {o.day: o for o in self._outcomes.values() if isinstance(o, WrittenDate)}
        return plans, {**written, **self._run_window(plans)}

    @property
    def _delivered(self) -> DeliveriesByDate:
        return applied_by_date(self.deliveries, self.parent)

    @property
    def _file_bytes(self) -> int:
        return target_file_bytes(self.attempt.file_bytes, self.deliveries.files, self.parent)

    def _plans(self) -> dict[date, DatePlan]:
        """The plans by what is known of the deliveries; none if every delivery is refused."""
        return select_plans(self.attempt, self._delivered, self.parent) if self.deliveries.applied else {}

    def _validate(self, files: Sequence[LandedFile]) -> None:
        """Validate files that no date reads, or not yet."""
        validator, sizes = FileValidator.from_attempt(self.attempt), [file.size for file in files]
        self.deliveries.add(map_objects(self.session, validator, files, sizes, "validate landed files"))

    def _run_tasks(self, plans: Mapping[date, DatePlan], step: str) -> None:
        """Run the tasks of these plans that have no outcome yet. What other tasks wrote before is deleted."""
        tasks = [plan.task for plan in plans.values() if plan.task]
        for task in self._outcomes.keys() - set(tasks):
            self._delete(task, self._outcomes.pop(task))
        work = RunDate(self.attempt, self.seed, self._file_bytes, FileValidator.from_attempt(self.attempt))
        remaining = [task for task in tasks if task not in self._outcomes]
        description = f"{self.attempt.feed} generation {self.attempt.generation}: {step} of {len(remaining)} dates"
        with self.job_log.dates_at_work(len(remaining)):
            results = run_tasks(self.session, work, remaining, [task.bytes for task in remaining], description)
        for task, result in zip(remaining, results, strict=True):
            self.deliveries.add(result.validations)
            if result.outcome:
                self._outcomes[task] = result.outcome

    def _delete(self, task: DateTask, outcome: Outcome) -> None:
        files = (outcome.files or ()) if isinstance(outcome, WrittenDate) else ()
        for path in (*(file.path for file in files), stored.path_of(task.day)):
            storage.delete(storage.join(self.attempt.data_uri, path))

    def _run_window(self, plans: Mapping[date, DatePlan]) -> WrittenDates:
        """Write the dates of plan window."""
        delivered = self._delivered
        dates = {day: delivered.get(day, ()) for day, plan in plans.items() if plan.outcome is DateOutcome.WINDOW}
        if not dates:
            return {}
        with self.job_log.phase(DateOutcome.WINDOW), self.job_log.dates_at_work(len(dates)):
            found = run_window_plan(self.session(), self.attempt, dates, self.parent, self._file_bytes)
        return {w.day: replace(w, key_fingerprint=self._unchanged_fingerprint(w.day, dates)) for w in found}

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

    def _unchanged_fingerprint(self, day: date, delivered: DeliveriesByDate) -> str | None:
        """Return the digest of the parent's key fingerprint of a date of plan window, if it still holds, else None.

        The fingerprint covers only the rows with the date's highest update_id. They do not change if all applied
        deliveries of the date have lower snapshot ids.
        """
        entry = self.parent.dates.get(day)
        if self.attempt.update_id_mode is not UpdateIdMode.LAST_SEEN or entry is None:
            return None
        ids = [dated.delivery.snapshot_id for dated in delivered[day]]
        return entry.key_fingerprint if all(snapshot_id < entry.max_update_id for snapshot_id in ids) else None
