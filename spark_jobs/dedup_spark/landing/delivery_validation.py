"""Validates all deliveries of an attempt: decides which are applied, and which are refused and why."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Arrival, Delivery
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.landed_objects import describe_no_rows, first_problems, refusal_reason
from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.landing.file_validation import FileValidation, FileValidator, LandedFile
from dedup_spark.landing.inventory import changed_objects, data_files

# Returns the validation of each file, in any order.
ValidateFiles = Callable[[Sequence[LandedFile]], list[FileValidation]]


@dataclass(frozen=True)
class ValidatedDelivery:
    """A delivery without problems. `rows_by_date`: the number of its rows on each date.

    `retained_rows`: the same without dates older than the retention.
    """

    arrival: Arrival
    files: tuple[FileValidation, ...]
    rows_by_date: dict[date, int]
    retained_rows: dict[date, int]

    @property
    def delivery(self) -> Delivery:
        return self.arrival.delivery

    def files_of(self, day: date) -> tuple[FileValidation, ...]:
        """The files with rows of the date."""
        return self._files_by_date.get(day, ())

    @cached_property
    def _files_by_date(self) -> dict[date, tuple[FileValidation, ...]]:
        found: defaultdict[date, list[FileValidation]] = defaultdict(list)
        for file in self.files:
            for day, rows in file.rows_by_date.items():
                if rows:
                    found[day].append(file)
        return {day: tuple(files) for day, files in found.items()}


@dataclass(frozen=True)
class ValidatedDeliveries:
    """The result of validating an attempt. `applied`: in ascending precedence, so the newest delivery is the last."""

    applied: tuple[ValidatedDelivery, ...]
    refused: tuple[RefusedDelivery, ...]


def validate_deliveries(
    attempt: Attempt,
    arrivals: tuple[Arrival, ...],
    newest_parent_id: int | None,
    validate: ValidateFiles,
) -> ValidatedDeliveries:
    """Validate every delivery. `newest_parent_id`: `Parent.newest_id`, the highest snapshot id in the parent, or None.

    `validate`: validates the files of the deliveries whose inventory has no problem.
    """
    problems: dict[Delivery, list[str]] = {}
    files: list[LandedFile] = []
    delivery_of: dict[str, Delivery] = {}
    for arrival in arrivals:
        found, inventory_problems = data_files(arrival, attempt)
        inventory_problems += changed_objects(arrival) + _order_problems(attempt, arrival.delivery, newest_parent_id)
        problems[arrival.delivery] = inventory_problems
        if not inventory_problems:
            files += found
            delivery_of.update((f.uri, arrival.delivery) for f in found)
    validated: defaultdict[Delivery, list[FileValidation]] = defaultdict(list)
    for result in validate(files):
        delivery = delivery_of[result.file.uri]
        validated[delivery].append(result)
        problems[delivery] += result.problems
    for arrival in arrivals:
        if not problems[arrival.delivery] and not any(f.rows_by_date for f in validated[arrival.delivery]):
            folder = storage.object_uri(arrival.bucket, arrival.folder)
            problems[arrival.delivery].append(describe_no_rows(folder, len(validated[arrival.delivery])))
    return ValidatedDeliveries(
        applied=tuple(_validated(attempt, a, validated[a.delivery]) for a in arrivals if not problems[a.delivery]),
        refused=tuple(
            RefusedDelivery(a.delivery, _reason(attempt, a.delivery, problems[a.delivery]))
            for a in arrivals
            if problems[a.delivery]
        ),
    )


def validate_files(attempt: Attempt, files: Sequence[LandedFile], fan_out: FanOut) -> list[FileValidation]:
    """Validate each file in a call of its own. Return the results in the order of `files`."""
    validator = FileValidator.from_attempt(attempt)
    return fan_out.map(validator, files, sum(f.size for f in files), "validate landed files")


def expected_deliveries(
    attempt: Attempt, arrivals: Sequence[Arrival], files: Sequence[LandedFile]
) -> tuple[ValidatedDelivery, ...]:
    """Return the deliveries that have some of `files`, as they will be if each file has rows of its folder's date."""
    by_id: defaultdict[int, list[FileValidation]] = defaultdict(list)
    for file in files:
        if file.folder_date and file.folder_date <= attempt.latest_day:
            by_id[file.snapshot_id].append(FileValidation(file, {file.folder_date: 1}, (), is_expected=True))
    with_files = (arrival for arrival in arrivals if arrival.delivery.snapshot_id in by_id)
    return tuple(_validated(attempt, arrival, by_id[arrival.delivery.snapshot_id]) for arrival in with_files)


def require_unchanged(attempt: Attempt, applied: tuple[ValidatedDelivery, ...]) -> None:
    """List landing anew, and raise DeliveryRefused if objects have changed since the inventory was frozen."""
    for validated in applied:
        changes = changed_objects(validated.arrival)
        if changes:
            raise DeliveryRefused(_reason(attempt, validated.delivery, changes))


def _validated(attempt: Attempt, arrival: Arrival, files: list[FileValidation]) -> ValidatedDelivery:
    rows: Counter[date] = Counter()
    for file in files:
        rows.update(file.rows_by_date)
    retained = {day: count for day, count in rows.items() if day >= attempt.retention_day}
    return ValidatedDelivery(arrival, tuple(files), dict(rows), retained)


def _order_problems(attempt: Attempt, delivery: Delivery, newest_parent_id: int | None) -> list[str]:
    is_late = newest_parent_id is not None and delivery.snapshot_id < newest_parent_id
    if attempt.update_id_mode is UpdateIdMode.LAST_SEEN or not is_late:
        return []
    return [
        f"snapshot id [{delivery.snapshot_id}] is below [{newest_parent_id}], the highest that the table has: "
        f"update_id mode [last_changed] needs snapshots in order"
    ]


def _reason(attempt: Attempt, delivery: Delivery, problems: list[str]) -> str:
    if attempt.takes_over is None:
        return refusal_reason(attempt.feed, delivery, problems)
    return (
        f"The existing table cannot become feed [{attempt.feed}]: {first_problems(problems)}. Nothing was changed. "
        f"Next: correct these rows in the table, then trigger the DAG again."
    )
