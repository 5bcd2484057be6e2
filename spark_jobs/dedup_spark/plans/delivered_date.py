"""Describes the applied deliveries date by date, for the plans: before their files are read, and afterwards."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date

from dedup_clone.contract.delivery import Delivery
from dedup_spark.landing.deliveries import Deliveries
from dedup_spark.landing.file_validation import FileValidation, LandedFile


@dataclass(frozen=True)
class DeliveredFile:
    """One file of a delivery, for its rows of the date `day`. `validation`: None until the file has been read."""

    landed: LandedFile
    day: date
    validation: FileValidation | None

    @property
    def uri(self) -> str:
        return self.landed.uri

    @property
    def size(self) -> int:
        return self.landed.size

    @property
    def rows(self) -> int:
        """The number of rows of the date; 0 until the file has been read."""
        return self.validation.rows_by_date.get(self.day, 0) if self.validation else 0

    @property
    def found(self) -> FileValidation:
        """The validation. The file must have been read."""
        assert self.validation
        return self.validation

    @property
    def bytes_of_rows(self) -> float:
        """About how many stored bytes the rows of the date take. The file must have been read."""
        return self.size * self.rows / sum(self.found.rows_by_date.values())

    @property
    def date_count(self) -> int:
        """How many dates the rows of the file have. A file that has not been read is in the folder of its only date."""
        return len(self.validation.rows_by_date) if self.validation else 1


@dataclass(frozen=True)
class DeliveredDate:
    """A delivery's files of one date, by URI.

    Two objects of one delivery are equal even if only one of them knows which files have rows.
    """

    delivery: Delivery
    files: tuple[DeliveredFile, ...] = field(compare=False)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """The stored bytes of the files."""
        return sum(file.size for file in self.files)

    @property
    def unread_files(self) -> list[LandedFile]:
        return [file.landed for file in self.files if file.validation is None]

    def with_validations(self, found: Mapping[str, FileValidation]) -> DeliveredDate:
        """The same files with the results, by URI, of those that were just read."""
        files = (replace(file, validation=found.get(file.uri, file.validation)) for file in self.files)
        return replace(self, files=tuple(files))


Validations = Mapping[str, FileValidation]
DeliveriesByDate = Mapping[date, tuple[DeliveredDate, ...]]


def deliveries_by_date(deliveries: Deliveries) -> DeliveriesByDate:
    """Return for each date within the retention the applied deliveries that have it, in ascending precedence.

    A file that has not been read is taken to have rows of its folder's date, and no rows without date folders.
    """
    found: defaultdict[date, tuple[DeliveredDate, ...]] = defaultdict(tuple)
    for landed in deliveries.applied:
        by_date: defaultdict[date, list[DeliveredFile]] = defaultdict(list)
        for file in landed.files:
            validation = deliveries.validations.get(file.uri)
            for day in _dates(file, validation):
                if deliveries.attempt.retention_day <= day <= deliveries.attempt.latest_day:
                    by_date[day].append(DeliveredFile(file, day, validation))
        for day, files in by_date.items():
            found[day] += (DeliveredDate(landed.delivery, tuple(files)),)
    return found


def _dates(file: LandedFile, validation: FileValidation | None) -> Iterable[date]:
    if validation is None:
        return [file.folder_date] if file.folder_date else []
    return [day for day, rows in validation.rows_by_date.items() if rows]
