"""Describes a delivery's files of one date, for the tasks of plans adopt and rewrite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from dedup_clone.contract.delivery import Arrival, Delivery, LandedObject
from dedup_clone.contract.request import DedupRequest
from dedup_spark import storage
from dedup_spark.landing.delivery_validation import ValidatedDelivery
from dedup_spark.landing.file_validation import FileValidation, LandedFile
from dedup_spark.parent import PARENT_SOURCE, ParentDate
from dedup_spark.storage.parquet_files import open_parquet

# If the larger of delivery and parent has at most this many times the bytes of the other, both are taken to have the
# same number of rows.
_SIMILAR_SIZE_FACTOR = 2
# At most this many footers are read to estimate the rows of all files.
_MAX_FOOTERS = 32


@dataclass(frozen=True)
class DeliveredFile:
    """One file of a delivery, which has rows of one date. `generation` is the object generation, `crc32c` in base64.

    Until the file has been validated, only what the inventory says is known: `rows` is 0 and `has_written_schema`
    False. `has_written_schema`: whether the columns, types and modes are those that the job writes.
    """

    uri: str
    size: int
    generation: int
    crc32c: str
    rows: int
    has_written_schema: bool


@dataclass(frozen=True)
class DeliveredDate:
    """A delivery's files of the date, sorted by URI. `source`: the delivery's number among the applied ones, from 1."""

    source: int
    delivery: Delivery
    files: tuple[DeliveredFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def bytes(self) -> int:
        """The stored bytes of the files."""
        return sum(file.size for file in self.files)

    def landed_files(self, day: date) -> list[LandedFile]:
        """The files in the form in which validation takes them."""
        return [LandedFile(file.uri, file.size, self.delivery.snapshot_id, day) for file in self.files]

    def with_validations(self, day: date, found: Mapping[str, FileValidation]) -> DeliveredDate:
        """The same files with the row counts and schemas that validation found, including files without rows."""
        files = (
            replace(
                file,
                rows=found[file.uri].rows_by_date.get(day, 0),
                has_written_schema=found[file.uri].has_written_schema,
            )
            for file in self.files
        )
        return replace(self, files=tuple(files))

    def without_empty_files(self) -> DeliveredDate:
        return replace(self, files=tuple(file for file in self.files if file.rows))


def expected_rows(delivered: DeliveredDate, parent: ParentDate | None) -> int:
    """Estimate the rows of the delivery: as many as the parent has if both have similar sizes, otherwise from footers.

    By this number the number of buckets is chosen. With too few buckets, nearly all of them would differ in the next
    snapshot. Raises pyarrow's errors if a footer cannot be read.
    """
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


def deliveries_by_date(
    dates: Iterable[date], applied: Sequence[ValidatedDelivery]
) -> dict[date, tuple[DeliveredDate, ...]]:
    """Return for each of `dates` the applied deliveries that have it, in ascending precedence."""
    found: dict[date, tuple[DeliveredDate, ...]] = dict.fromkeys(dates, ())
    for source, validated in enumerate(applied, start=PARENT_SOURCE + 1):
        inventory = _inventory(validated.arrival)
        for day in found.keys() & validated.retained_rows.keys():
            files = {file.file.uri: file for file in validated.files_of(day)}
            unopened = _unopened(source, validated.arrival, inventory, files)
            found[day] += (unopened.with_validations(day, files),)
    return found


def presumed_deliveries(
    request: DedupRequest, arrivals: Sequence[Arrival], files: Sequence[LandedFile]
) -> dict[date, tuple[DeliveredDate, ...]]:
    """Return the deliveries by date, assuming that every delivery with `files` is applied.

    The files have not been opened yet, so the dates are those of the folders.
    """
    landed: defaultdict[int, defaultdict[date, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        uris_by_date = landed[file.snapshot_id]
        if file.folder_date and request.retention_day <= file.folder_date <= request.latest_day:
            uris_by_date[file.folder_date].append(file.uri)
    present = [arrival for arrival in arrivals if arrival.delivery.snapshot_id in landed]
    found: defaultdict[date, tuple[DeliveredDate, ...]] = defaultdict(tuple)
    for source, arrival in enumerate(present, start=PARENT_SOURCE + 1):
        inventory = _inventory(arrival)
        for day, uris in landed[arrival.delivery.snapshot_id].items():
            found[day] += (_unopened(source, arrival, inventory, uris),)
    return found


def _inventory(arrival: Arrival) -> dict[str, LandedObject]:
    """The frozen objects by URI. A delivery may have many thousands, so this is called once for each delivery."""
    return {storage.object_uri(arrival.bucket, landed.name): landed for landed in arrival.objects}


def _unopened(
    source: int, arrival: Arrival, inventory: Mapping[str, LandedObject], uris: Iterable[str]
) -> DeliveredDate:
    """Return the files, which have not been opened yet, with what the inventory says of them."""
    named = ((uri, inventory[uri]) for uri in sorted(uris))
    files = (DeliveredFile(uri, o.size, o.generation, o.crc32c, rows=0, has_written_schema=False) for uri, o in named)
    return DeliveredDate(source, arrival.delivery, tuple(files))
