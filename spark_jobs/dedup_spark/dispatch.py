"""Runs the plans of dates: first adopt and rewrite, then window, which also writes what the others decline.

Plans are selected from names and ids alone, and the tasks of dates validate the landed files that they read. The files
of a large date are read by several tasks first, whose sketches the date's own task adds up. If a delivery is refused,
the results of the dates that contain it are deleted, and only these dates run again, without it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from typing import TypeVar

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.manifest import DateOutcome
from dedup_spark import storage
from dedup_spark.comparison.duplicate_keys import TooManyDuplicates
from dedup_spark.comparison.key_reader import ValidatingReader
from dedup_spark.data_files import target_file_bytes
from dedup_spark.execution.fan_out import divide_into, map_objects, run_tasks
from dedup_spark.execution.progress import JobLog
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.seed import Seed
from dedup_spark.landing.deliveries import Deliveries
from dedup_spark.landing.file_validation import FileValidation, FileValidator, LandedFile
from dedup_spark.parent import Parent
from dedup_spark.plan_selection import DatePlan, applied_by_date, select_plans
from dedup_spark.plans.date_files import write_date
from dedup_spark.plans.date_task import DateTask, Outcome, SketchedPart, WrittenDate, WrittenDates
from dedup_spark.plans.delivered_date import DeliveredDate, DeliveriesByDate
from dedup_spark.plans.difference.comparison_inputs import SketchForm, choose_form, open_inputs, sketch_part
from dedup_spark.plans.difference.differences import find_differences
from dedup_spark.plans.window.window_plan import run_window_plan
from dedup_spark.sketch import stored

_logger = logging.getLogger("dedup_spark")


# A date of at least two such parts may be divided. Reading a part takes many times as long as writing and reading its
# sketch, which has up to 96 MiB.
_PART_BYTES = 512 << 20
_Outcome = TypeVar("_Outcome")
# What a Spark task returns for a date: validations of the files that no task had read before, and the outcome.
DateResult = tuple[tuple[FileValidation, ...], _Outcome | None]


@dataclass(frozen=True)
class DatePart:
    """Some files of a delivery of a date, for a task of their own. `form`: the same for all parts of the date."""

    day: date
    delivered: DeliveredDate
    form: SketchForm


@dataclass(frozen=True)
class RunDate:
    """Runs plan adopt or rewrite for one date, and validates those of its files that have not been validated yet.

    `file_bytes`: the target size of a file.
    """

    attempt: Attempt
    seed: Seed
    file_bytes: int

    def __call__(self, task: DateTask) -> DateResult[Outcome]:
        return self._validated(task.day, task.deliveries, partial(self._outcome, task))

    def form(self, task: DateTask) -> SketchForm | None:
        """Choose the form of the sketches of a date's parts; None if a footer is damaged: the date is not divided."""
        try:
            return choose_form(task, self._reader(task.deliveries), self.seed, exact=self.attempt.exact)
        except Exception as error:  # the task that validates the file finds out whether the file is the cause
            _logger.warning("date [%s] may be read again: %s: %s", task.day, type(error).__name__, error)
            return None

    def sketch(self, part: DatePart) -> DateResult[SketchedPart]:
        """Validate the files of a part, and store the sketch of their rows below the data folder."""
        return self._validated(part.day, [part.delivered], partial(self._sketched, part))

    def _reader(self, deliveries: Sequence[DeliveredDate]) -> ValidatingReader:
        landed = {file.uri: file for delivered in deliveries for file in delivered.unread_files}
        validator = FileValidator.from_attempt(self.attempt)
        return ValidatingReader(self.attempt.table, validator=validator, landed=landed)

    def _validated(
        self, day: date, deliveries: Sequence[DeliveredDate], work: Callable[[ValidatingReader], _Outcome | None]
    ) -> DateResult[_Outcome]:
        """Do the work. If it fails, validate the files one by one: the cause is reported for the file, or next time.

        The outcome is None if the work failed before the files were known to be valid, or if there is nothing to do.
        `deliveries`: the files that the work reads. Raises what the work raises if all these are valid already.
        """
        reader = self._reader(deliveries)
        outcome, files = None, list(reader.landed.values())
        try:
            outcome = work(reader)
        except Exception as error:
            if not files:
                raise
            _logger.warning("date [%s] may run again: %s: %s", day, type(error).__name__, error)
        validations = (reader.validations.get(file.uri) or reader.validator(file) for file in files)
        return tuple(validations), outcome

    def _sketched(self, part: DatePart, reader: ValidatingReader) -> SketchedPart | None:
        delivery = part.delivered.delivery
        sketch = sketch_part(part.delivered, part.form, reader)
        if sketch is None:
            return None
        uri = storage.join(self.attempt.data_uri, stored.path_of_part(part.day))
        stored.write(uri, stored.StoredSketch(delivery.snapshot_id, sketch))
        return SketchedPart(delivery, uri, sketch.digest())

    def _outcome(self, task: DateTask, reader: ValidatingReader) -> Outcome | None:
        """Write the date's files and sketch below the data folder, or write nothing and leave the date to plan window.

        Return None if the newest delivery has no row. Raises UnsuitableFile or pyarrow's errors if a file cannot be
        used, and DeliveryRefused if a landed object has changed since the inventory was frozen.
        """
        inputs = open_inputs(task, reader, self.seed, exact=self.attempt.exact)
        inputs = replace(inputs, task=task.with_validations(reader.validations))
        if not inputs.task.newest.rows:
            return None
        try:
            diff = find_differences(inputs, exact=self.attempt.exact)
        except TooManyDuplicates as error:
            return str(error)
        return write_date(self.attempt, self.file_bytes, inputs, diff, reader)


def _large_dates(tasks: Sequence[DateTask], core_count: int) -> list[DateTask]:
    """The dates whose delivered files are divided: they have more bytes than one core's share of all dates."""
    sizes = [sum(delivered.bytes for delivered in task.deliveries) for task in tasks]
    most_bytes = max(2 * _PART_BYTES - 1, sum(sizes) // core_count)
    return [task for task, size in zip(tasks, sizes, strict=True) if size > most_bytes]


def _parts(task: DateTask, form: SketchForm, core_count: int) -> Iterator[DatePart]:
    """Divide the delivered files of a large date. A part knows no other file, because a date may have very many."""
    for delivered in task.deliveries:
        part_count = max(min(core_count, delivered.bytes // _PART_BYTES, len(delivered.files)), 1)
        for numbers in divide_into(part_count, [file.size for file in delivered.files]):
            files = tuple(delivered.files[number] for number in numbers)
            yield DatePart(task.day, replace(delivered, files=files), form)


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
    _parts: defaultdict[date, list[SketchedPart]] = field(default_factory=lambda: defaultdict(list))

    def run(self) -> tuple[dict[date, DatePlan], WrittenDates]:
        """Run all dates. Return the plan that each finally took, and what the plans wrote.

        There are none if every delivery is refused.
        """
        with self.job_log.phase("examine"):
            if not all(file.folder_date for file in self.deliveries.files):
                self._validate(self.deliveries.unread_files)  # only the rows tell which dates there are
            self._sketch_parts(self._plans())
            self._run_tasks(self._plans(), "validate and compare")
            self._validate(self.deliveries.unread_files)
        plans = self._plans()
        with self.job_log.phase("deduplicate"):
            self._run_tasks(plans, "compare and write")
        self._delete([part.uri for parts in self._parts.values() for part in parts])
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

    @property
    def _work(self) -> RunDate:
        return RunDate(self.attempt, self.seed, self._file_bytes)

    def _sketch_parts(self, plans: Mapping[date, DatePlan]) -> None:
        """Validate the files of large dates, and store sketches of their rows, in several tasks for each date."""
        tasks = [plan.task for plan in plans.values() if plan.task]
        core_count = self.session().sparkContext.defaultParallelism
        large = _large_dates(tasks, core_count)
        forms = run_tasks(self.session, self._work.form, large, [0] * len(large), "choose sketches of large dates")
        chosen = [(task, form) for task, form in zip(large, forms, strict=True) if form]
        parts = [part for task, form in chosen for part in _parts(task, form, core_count)]
        sizes = [part.delivered.bytes for part in parts]
        results = run_tasks(self.session, self._work.sketch, parts, sizes, "sketch parts of large dates")
        for part, (validations, sketch) in zip(parts, results, strict=True):
            self.deliveries.add(validations)
            self._parts[part.day] += [sketch] if sketch else []

    def _run_tasks(self, plans: Mapping[date, DatePlan], step: str) -> None:
        """Run the tasks of these plans that have no outcome yet. What other tasks wrote before is deleted."""
        tasks = [plan.task for plan in plans.values() if plan.task]
        outdated = {task: self._outcomes.pop(task) for task in self._outcomes.keys() - set(tasks)}
        self._delete([uri for task, outcome in outdated.items() for uri in self._written_uris(task, outcome)])
        remaining = [replace(task, parts=tuple(self._parts[task.day])) for task in tasks if task not in self._outcomes]
        results = run_tasks(self.session, self._work, remaining, [task.bytes for task in remaining], step)
        for task, (validations, outcome) in zip(remaining, results, strict=True):
            self.deliveries.add(validations)
            if outcome:
                self._outcomes[task] = outcome

    def _written_uris(self, task: DateTask, outcome: Outcome) -> list[str]:
        files = outcome.files if isinstance(outcome, WrittenDate) else ()
        paths = [*(file.path for file in files), stored.path_of(task.day)]
        return [storage.join(self.attempt.data_uri, path) for path in paths]

    def _delete(self, uris: Sequence[str]) -> None:
        map_objects(self.session, storage.delete, uris, [0] * len(uris), "delete objects")

    def _run_window(self, plans: Mapping[date, DatePlan]) -> WrittenDates:
        """Write the dates of plan window."""
        delivered = self._delivered
        dates = {day: delivered[day] for day, plan in plans.items() if plan.outcome is DateOutcome.WINDOW}
        if not dates:
            return {}
        with self.job_log.phase(DateOutcome.WINDOW):
            found = run_window_plan(self.session(), self.attempt, dates, self.parent, self._file_bytes)
        return {written.day: written for written in found}
