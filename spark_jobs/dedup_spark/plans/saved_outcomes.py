"""Saves outcomes of dates as objects, so that the run that follows a lost run of an attempt need not repeat the work.

The later run copies the date's files from the earlier run's data folder into its own.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from dedup_clone import __version__
from dedup_clone.contract.records import digest, from_json, to_json
from dedup_spark import storage
from dedup_spark.execution.part_tasks import PartTasks
from dedup_spark.fingerprints import stored
from dedup_spark.landing.file_validation import FileValidation
from dedup_spark.plans.adopt.adopt_date import AdoptDate
from dedup_spark.plans.adopt.adopt_task import AdoptedDate, AdoptTask
from dedup_spark.plans.rewrite.rewrite_task import RewriteTask, RewrittenDate
from dedup_spark.plans.scanned_date import Outcome, ScannedDate, Task
from dedup_spark.plans.written_date import DeclinedDate, WrittenDate

_logger = logging.getLogger("dedup_spark")

# Outcomes that took less time are not saved: saving takes about as long as the work on a small date.
MIN_SAVED_SECONDS = 1.0


@dataclass(frozen=True)
class _SavedDate:
    """The stored form of a ScannedDate: a date's validations, task and outcome. Its written files are below `data_uri`.

    One of the two tasks and one of the three outcomes is set.
    """

    data_uri: str
    validations: tuple[FileValidation, ...]
    adopt_task: AdoptTask | None
    rewrite_task: RewriteTask | None
    adopted: AdoptedDate | None
    rewritten: RewrittenDate | None
    declined: DeclinedDate | None

    @classmethod
    def from_outcome(cls, data_uri: str, validations: tuple[FileValidation, ...], task: Task, outcome: Outcome) -> Self:
        return cls(
            data_uri=data_uri,
            validations=validations,
            adopt_task=task if isinstance(task, AdoptTask) else None,
            rewrite_task=task if isinstance(task, RewriteTask) else None,
            adopted=outcome if isinstance(outcome, AdoptedDate) else None,
            rewritten=outcome if isinstance(outcome, RewrittenDate) else None,
            declined=outcome if isinstance(outcome, DeclinedDate) else None,
        )

    @property
    def scanned(self) -> ScannedDate:
        task = self.adopt_task or self.rewrite_task
        outcome = self.adopted or self.rewritten or self.declined
        assert task
        assert outcome
        return ScannedDate(self.validations, (task, outcome))


@dataclass(frozen=True)
class SavedOutcomes:
    """The outcomes saved below `folder_uri`.

    `names`: the names of the objects that earlier runs saved. `data_uri`: the data folder of this run.
    """

    folder_uri: str
    data_uri: str
    names: frozenset[str]

    @classmethod
    def list(cls, folder_uri: str, data_uri: str) -> Self:
        return cls(folder_uri, data_uri, frozenset(storage.list_objects(folder_uri)))

    def load(self, task: Task) -> ScannedDate | None:
        """Copy the files of the outcome that an earlier run saved for the same task, and return the outcome.

        None if no such outcome was saved, or if a file is missing or the object cannot be read. The date is then
        handled again.
        """
        if not self.names:
            return None
        name = _name(task)
        if name not in self.names:
            return None
        uri = storage.join(self.folder_uri, name)
        try:
            saved = from_json(_SavedDate, storage.read_text(uri), where=uri)
            scanned = saved.scanned
            for path in _paths(scanned):
                storage.copy(storage.join(saved.data_uri, path), storage.join(self.data_uri, path))
        except Exception as error:  # the storage failed, or the record is damaged
            _logger.info("date [%s] is done again: [%s] is of no use: %s", task.day, uri, error)
            return None
        return scanned

    def save(self, task: Task, scanned: ScannedDate) -> None:
        """Save the outcome of `task`, if it took at least MIN_SAVED_SECONDS, and no run has saved one yet."""
        if scanned.task_and_outcome and (scanned.task_and_outcome[1].cost.seconds or 0.0) >= MIN_SAVED_SECONDS:
            saved = _SavedDate.from_outcome(self.data_uri, scanned.validations, *scanned.task_and_outcome)
            storage.create_text(storage.join(self.folder_uri, _name(task)), to_json(saved))


@dataclass(frozen=True)
class ResumableWork:
    """Returns the saved outcome of a date's task. If there is none, it does the work and saves the outcome."""

    work: Callable[[Any], Outcome]
    saved: SavedOutcomes

    def with_parts(self, parts: PartTasks) -> ResumableWork:
        """Return the work, to be called on the driver, with parts run as Spark tasks. Only for plan adopt."""
        assert isinstance(self.work, AdoptDate)
        return replace(self, work=replace(self.work, parts=parts))

    def __call__(self, task: Task) -> Outcome:
        scanned = self.saved.load(task)
        if scanned and scanned.task_and_outcome:
            return scanned.task_and_outcome[1]
        outcome = self.work(task)
        self.saved.save(task, ScannedDate((), (task, outcome)))
        return outcome


def _name(task: Task) -> str:
    """The object's name, which differs by date, task and version of the code, but not by the task's threads."""
    with_one_thread = replace(task, threads=1) if isinstance(task, AdoptTask) else task
    return f"{task.day}-{digest(__version__ + to_json(with_one_thread))}.json"


def _paths(scanned: ScannedDate) -> list[str]:
    """The paths of the files and of the fingerprints that the task wrote below the data folder."""
    assert scanned.task_and_outcome
    _, outcome = scanned.task_and_outcome
    written = list(outcome.files or ()) if isinstance(outcome, WrittenDate) else []
    match outcome:
        case AdoptedDate():
            has_fingerprints = True
        case RewrittenDate():
            has_fingerprints = outcome.wrote_fingerprints
        case DeclinedDate():
            has_fingerprints = False
    return [file.path for file in written] + ([stored.path_of(outcome.day)] if has_fingerprints else [])
