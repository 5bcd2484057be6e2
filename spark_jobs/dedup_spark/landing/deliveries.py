"""Knows the deliveries of an attempt: their files, what validation found in them, and which are refused and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import date

from dedup_clone.contract import landed_objects
from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Arrival, Delivery
from dedup_clone.contract.errors import DeliveryRefused
from dedup_clone.contract.landed_objects import describe_no_rows, first_problems, refusal_reason
from dedup_clone.contract.manifest import RefusedDelivery
from dedup_clone.contract.records import from_json
from dedup_clone.contract.table import UpdateIdMode
from dedup_spark import storage
from dedup_spark.landing.file_validation import FileValidation, LandedFile


@dataclass(frozen=True)
class LandedDelivery:
    """A delivery and its data files by URI. If its inventory has `problems`, no file is read."""

    arrival: Arrival
    files: tuple[LandedFile, ...]
    problems: tuple[str, ...]

    @property
    def delivery(self) -> Delivery:
        return self.arrival.delivery


@dataclass
class Deliveries:
    """The deliveries of an attempt, in ascending precedence. `validations`: of the files read so far, by URI."""

    attempt: Attempt
    landed: tuple[LandedDelivery, ...] = ()
    validations: dict[str, FileValidation] = field(default_factory=dict)

    @classmethod
    def read(cls, attempt: Attempt, newest_parent_id: int | None) -> Deliveries:
        """Read the frozen inventories, and compare them with landing. `newest_parent_id`: see `Parent.newest_id`.

        Raises ContractViolation if a record is malformed, and FileNotFoundError if there is none.
        """
        landed = []
        for uri in map(attempt.arrival_uri, attempt.deliveries):
            arrival = from_json(Arrival, storage.read_text(uri), where=uri)
            files, problems = data_files(arrival, attempt)
            problems += changed_objects(arrival) + _order_problems(attempt, arrival.delivery, newest_parent_id)
            by_uri = sorted(files, key=lambda file: file.uri)
            landed.append(LandedDelivery(arrival, () if problems else tuple(by_uri), tuple(problems)))
        return cls(attempt, tuple(landed))

    @property
    def files(self) -> list[LandedFile]:
        """The files of all deliveries whose inventory has no problem."""
        return [file for landed in self.landed for file in landed.files]

    @property
    def unread_files(self) -> list[LandedFile]:
        return [file for file in self.files if file.uri not in self.validations]

    def add(self, found: Iterable[FileValidation]) -> None:
        self.validations.update((validation.file.uri, validation) for validation in found)

    @property
    def applied(self) -> tuple[LandedDelivery, ...]:
        """The deliveries in which no problem has been found so far."""
        return tuple(landed for landed in self.landed if not self._problems(landed))

    @property
    def refused(self) -> tuple[RefusedDelivery, ...]:
        """The other deliveries, each with all its problems once all files are read."""
        problems = {landed.delivery: self._problems(landed) for landed in self.landed}
        return tuple(
            RefusedDelivery(delivery, _reason(self.attempt, delivery, found))
            for delivery, found in problems.items()
            if found
        )

    def _problems(self, landed: LandedDelivery) -> list[str]:
        read = [self.validations[file.uri] for file in landed.files if file.uri in self.validations]
        problems = [*landed.problems, *(problem for validation in read for problem in validation.problems)]
        if not problems and len(read) == len(landed.files) and not any(validation.rows_by_date for validation in read):
            folder = storage.object_uri(landed.arrival.bucket, landed.arrival.folder)
            return [describe_no_rows(folder, len(read))]
        return problems

    def rows_by_date(self, landed: LandedDelivery) -> Counter[date]:
        """The number of rows of a delivery, all files of which have been read."""
        rows: Counter[date] = Counter()
        for file in landed.files:
            rows.update(self.validations[file.uri].rows_by_date)
        return rows

    def require_unchanged(self) -> None:
        """List landing anew. Raise DeliveryRefused if objects of an applied delivery differ from its inventory."""
        for landed in self.applied:
            changes = changed_objects(landed.arrival)
            if changes:
                raise DeliveryRefused(_reason(self.attempt, landed.delivery, changes))


def changed_objects(arrival: Arrival) -> list[str]:
    """A problem for each object that changed, vanished or appeared after the inventory was frozen.

    Folder placeholders and hidden files do not count.
    """
    present = storage.list_objects(storage.object_uri(arrival.bucket, arrival.folder.rstrip("/")))
    return landed_objects.changed_objects(arrival, present, _uri_of(arrival))


def data_files(arrival: Arrival, attempt: Attempt) -> tuple[list[LandedFile], list[str]]:
    """The delivery's data files, and the problems of the inventory itself."""
    uri_of, snapshot_id = _uri_of(arrival), arrival.delivery.snapshot_id
    found, problems = landed_objects.data_objects(attempt, arrival, uri_of)
    files = [
        LandedFile(uri_of(o.name), o.landed.size, snapshot_id, o.day, o.landed.generation, o.landed.crc32c)
        for o in found
    ]
    return files, problems


def _uri_of(arrival: Arrival) -> Callable[[str], str]:
    """A function that returns the URI of an object, given its name below the delivery's folder."""
    return lambda name: storage.object_uri(arrival.bucket, storage.join(arrival.folder, name))


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
