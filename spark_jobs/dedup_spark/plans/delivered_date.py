"""Describes a delivery's files of one date, for the tasks of plans adopt and rewrite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_spark import storage
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.landing.file_validation import FileValidation, LandedFile
from dedup_spark.parent import ParentDate
from dedup_spark.storage.parquet_files import open_parquet

# If the larger of delivery and parent has at most this many times the bytes of the other, both are taken to have the
# same number of rows.
_SIMILAR_SIZE_FACTOR = 2
# At most this many footers are read to estimate the rows of all files.
_MAX_FOOTERS = 32


@dataclass(frozen=True)
class DeliveredFile:
    """One file of a delivery, which has rows of one date. `generation` is the object generation, `crc32c` in base64.

    `has_written_schema`: whether the columns, types and modes are those that the job writes. Until the file has been
    read (`is_read`), only what the inventory says is known: `rows` is 0 and `has_written_schema` False.
    """

    uri: str
    size: int
    generation: int
    crc32c: str
    rows: int
    has_written_schema: bool
    is_read: bool


@dataclass(frozen=True)
class DeliveredDate:
    """A delivery's files of the date, sorted by URI."""

    delivery: Delivery
    files: tuple[DeliveredFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """The stored bytes of the files."""
        return sum(file.size for file in self.files)

    def unread_files(self, day: date) -> list[LandedFile]:
        """The files that have not been read, in the form in which validation takes them."""
        snapshot_id = self.delivery.snapshot_id
        return [LandedFile(file.uri, file.size, snapshot_id, day) for file in self.files if not file.is_read]

    def with_validations(self, day: date, found: Mapping[str, FileValidation]) -> DeliveredDate:
        """The same files, and for those that were just read the row counts and schemas that validation found."""

        def counted(file: DeliveredFile) -> DeliveredFile:
            rows, has_written_schema = found[file.uri].rows_by_date.get(day, 0), found[file.uri].has_written_schema
            return replace(file, rows=rows, has_written_schema=has_written_schema, is_read=True)

        return replace(self, files=tuple(counted(file) if file.uri in found else file for file in self.files))

    def without_empty_files(self) -> DeliveredDate:
        return replace(self, files=tuple(file for file in self.files if file.rows))


def expected_rows(delivered: DeliveredDate, parent: ParentDate | None) -> int:
    """Return the rows of the delivery. If not all files have been read, the number is estimated.

    The estimate is the parent's number of rows if both have similar sizes; otherwise it is made from footers. By this
    number the number of cells of a sketch is chosen. With too few cells, the next snapshot could not be told apart.
    Raises pyarrow's errors if a footer cannot be read.
    """
    if all(file.is_read for file in delivered.files):
        return delivered.rows
    if parent:
        smaller, larger = sorted((delivered.bytes, parent.bytes))
        if larger <= _SIMILAR_SIZE_FACTOR * smaller:
            return parent.entry.rows
    sample = delivered.files[:: -(-len(delivered.files) // _MAX_FOOTERS)]
    sample_bytes = max(sum(file.size for file in sample), 1)
    return sum(_footer_rows(file.uri) for file in sample) * delivered.bytes // sample_bytes


def _footer_rows(uri: str) -> int:
    with storage.open_input(uri) as source:
        return int(open_parquet(source).metadata.num_rows)


def deliveries_by_date(applied: Sequence[ValidatedDelivery]) -> dict[date, tuple[DeliveredDate, ...]]:
    """Return for each date the applied deliveries that have it, in ascending precedence."""
    found: defaultdict[date, tuple[DeliveredDate, ...]] = defaultdict(tuple)
    for validated in applied:
        inventory = _inventory(validated.arrival)
        for day in validated.retained_rows:
            by_uri = {file.file.uri: file for file in validated.files_of(day)}
            files = (_delivered_file(by_uri[uri], inventory[uri], day) for uri in sorted(by_uri))
            found[day] += (DeliveredDate(validated.delivery, tuple(files)),)
    return found


def _delivered_file(validation: FileValidation, landed: LandedObject, day: date) -> DeliveredFile:
    uri, rows = validation.file.uri, 0 if validation.is_expected else validation.rows_by_date[day]
    return DeliveredFile(
        uri,
        landed.size,
        landed.generation,
        landed.crc32c,
        rows,
        validation.has_written_schema,
        not validation.is_expected,
    )


def _inventory(arrival: Arrival) -> dict[str, LandedObject]:
    """The frozen objects by URI. A delivery may have many thousands, so this is called once for each delivery."""
    return {storage.object_uri(arrival.bucket, landed.name): landed for landed in arrival.objects}
