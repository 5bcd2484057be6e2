"""Validates one landed file: its footer, and the values of all its rows.

Statistics in the footer are not relied on. Every column is decoded, because a file may be loaded as it is, and an
unreadable page, or a value that BigQuery cannot store, would fail the load job of all files. One call in a Spark task
validates one file, and returns counts, not rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.parquet import describe_unreadable
from dedup_clone.contract.table import ColumnMode, TableContract
from dedup_spark import storage
from dedup_spark.arrow_cast import complete_batch, dates_of
from dedup_spark.column_types import text_columns
from dedup_spark.landing.cluster_overlap import Range, block_ranges
from dedup_spark.landing.footers import footer_problems, has_written_schema, joined_files, unsupported_encodings
from dedup_spark.landing.values import EPOCH_DAY, FIRST_DAY, LAST_DAY, InvalidValues, count_invalid_values

# A file up to this size is read whole, with one request; larger files are read in several parts.
_READ_WHOLE_BYTES = 4 << 20


@dataclass(frozen=True)
class LandedFile:
    """A data file of a delivery. `size`: in bytes. `folder_date`: the date of its folder; None without date folders.

    `generation`, `crc32c`: its object generation and its checksum in base64, as the inventory recorded them. The file
    is copied only as long as it has these; to validate it they are not needed.
    """

    uri: str
    size: int
    snapshot_id: int
    folder_date: date | None
    generation: int = 0
    crc32c: str = ""


@dataclass(frozen=True)
class FileValidation:
    """The result for one file, which is valid if it has no `problems`. `rows_by_date`: the number of its rows by date.

    `has_written_schema`: the file's columns, types and modes are exactly those that the job writes, so that BigQuery
    can load the file together with written files. `ranges`: the block ranges of the first clustering column; None
    without clustering, and if they are not known.
    """

    file: LandedFile
    rows_by_date: dict[date, int]
    problems: tuple[str, ...] = ()
    has_written_schema: bool = False
    ranges: tuple[Range, ...] | None = None


class UnsuitableFile(Exception):
    """A landed file has these problems. Whoever has received batches of it must discard what was computed from them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(*problems)
        self.problems = problems


@dataclass(frozen=True)
class FileValidator:
    """Validates files of one request.

    `latest_day`: the latest date that rows may have. `has_own_ids`: the files are the export of a table, whose rows
    have update_ids of their own. `since`: by the path of a column, the first snapshot id whose files must have the
    column.
    """

    table: TableContract
    latest_day: date
    has_own_ids: bool = False
    since: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_attempt(cls, attempt: Attempt) -> Self:
        return cls(attempt.table, attempt.latest_day, attempt.takes_over is not None, attempt.since)

    def __call__(self, landed: LandedFile) -> FileValidation:
        """Read the file. A file that cannot be read is invalid. Raises only errors of the storage."""
        if not landed.size:
            return self._invalid(landed, "is empty (0 bytes), expected a Parquet file")
        if landed.size > _READ_WHOLE_BYTES:
            try:
                with storage.open_input(landed.uri) as source:
                    return self._validate(landed, source)
            except Exception:
                pass  # The storage failed, or the file is damaged. A damaged file fails again below, in memory.
        with storage.open_input(landed.uri) as source:
            content = source.read()
        try:
            return self._validate(landed, pa.BufferReader(content))
        except Exception as error:  # damaged files raise many kinds of errors, which must not fail the other files
            return self._invalid(landed, f"cannot be read as Parquet: {describe_unreadable(error)}")

    def _validate(self, landed: LandedFile, source: pa.NativeFile) -> FileValidation:
        try:
            validation = self.begin(landed, source)
            for _, batch in storage.read_batches(validation.file):
                validation.add(batch)
            return validation.finish()
        except UnsuitableFile as error:
            return self._invalid(landed, *error.problems)

    def begin(self, landed: LandedFile, source: pa.NativeFile) -> RunningValidation:
        """Open the file, and validate its footer. Raises UnsuitableFile.

        The caller then reads all rows of `file` of the returned validation, and adds them to it.
        """
        later = {path for path, first_id in self.since.items() if landed.snapshot_id < first_id}
        in_folders = self.table.columns_in_folders(date_folders=landed.folder_date is not None)
        optional = frozenset() if self.has_own_ids else frozenset(later | in_folders)
        file = storage.open_parquet(source, verify_checksums=True, texts=text_columns(self.table.columns))
        is_written = has_written_schema(self.table.columns, file.metadata.schema)
        if not is_written:
            problems = footer_problems(self.table, file.metadata, exported=self.has_own_ids, optional=optional)
            if problems:
                raise UnsuitableFile(problems)
        return RunningValidation(self, landed, source, file, is_written)

    @staticmethod
    def _invalid(landed: LandedFile, *problems: str) -> FileValidation:
        return FileValidation(landed, {}, tuple(f"file [{landed.uri}] {problem}" for problem in problems))


@dataclass
class RunningValidation:
    """The validation of one file while it is read: counts of the rows that were added so far.

    `file`: reads `source`, which the caller closes. `invalid`: the number of invalid values or rows, by column and
    problem.
    """

    validator: FileValidator
    landed: LandedFile
    source: pa.NativeFile
    file: pq.ParquetFile
    has_written_schema: bool
    rows: int = 0
    rows_by_date: Counter[date] = field(default_factory=Counter)
    invalid: InvalidValues = field(default_factory=Counter)

    def add(self, batch: pa.RecordBatch) -> None:
        """Validate a batch with all columns of the file."""
        self.rows += batch.num_rows
        table = self.validator.table
        batch = complete_batch(table, self.landed.uri, batch, table.columns)
        required = [c.name for c in table.columns if c.mode is ColumnMode.REQUIRED]
        for name in {*table.keys, table.snapshot_id_column, *required}:
            self.invalid[name, "rows are [NULL], expected none"] += batch.column(name).null_count
        dates = dates_of(batch.column(table.partition_column).drop_null())
        all_in_folder = self._count_dates(dates.cast(pa.int32()))
        for column in table.columns:
            # Dates that equal the folder's need no check: a folder's date is in BigQuery's range (but see `_as_date`).
            if column.name != table.partition_column or column.type != "DATE" or not all_in_folder:
                count_invalid_values(column, batch.column(column.name), self.invalid)
        if not self.validator.has_own_ids:
            self._count_other_ids(batch.column(table.snapshot_id_column).drop_null().cast(pa.int64()))

    def _count_other_ids(self, ids: pa.Array) -> None:
        """Count the rows whose update_id is not the delivery's snapshot id."""
        bounds, expected = pc.min_max(ids), self.landed.snapshot_id
        if len(ids) and not bounds["min"].as_py() == bounds["max"].as_py() == expected:
            problem = f"rows have another id, expected the folder's [{expected}]"
            self.invalid[self.validator.table.snapshot_id_column, problem] += pc.not_equal(ids, expected).true_count

    def _count_dates(self, days: pa.Array) -> bool:
        """Count rows by date. Return whether all of them have the folder's date."""
        bounds = pc.min_max(days)
        if len(days) and bounds["min"] == bounds["max"]:
            day = _as_date(bounds["min"].as_py())
            self.rows_by_date[day] += len(days)
            return day == self.landed.folder_date
        for entry in pc.value_counts(days):
            self.rows_by_date[_as_date(entry["values"].as_py())] += entry["counts"].as_py()
        return False

    def finish(self) -> FileValidation:
        """Return the result, after all rows were added. Raises UnsuitableFile."""
        metadata, cluster_by = self.file.metadata, self.validator.table.cluster_by
        found = unsupported_encodings(metadata) + joined_files(metadata, self.source)
        found += self._problems() + self._lost_rows(metadata.num_rows)
        if found:
            raise UnsuitableFile(found)
        return FileValidation(
            file=self.landed,
            rows_by_date=dict(self.rows_by_date),
            has_written_schema=self.has_written_schema,
            ranges=block_ranges(metadata, cluster_by[0]) if cluster_by else None,
        )

    def _lost_rows(self, expected: int) -> list[str]:
        """Return a problem if fewer or more rows were read than `expected`, the number of rows in the footer.

        The usual reason is a page without values: pyarrow, unlike other readers, takes it for the end of the column.
        """
        if self.rows == expected:
            return []
        return [
            f"has [{expected}] rows by its footer, but [{self.rows}] could be read: write it with larger data pages, "
            f"none of them without values"
        ]

    def _problems(self) -> list[str]:
        table, landed, latest_day = self.validator.table, self.landed, self.validator.latest_day
        counts = sorted(self.invalid.items())
        found = [f"column [{path}]: {count} {problem}" for (path, problem), count in counts if count]
        late = {day: count for day, count in self.rows_by_date.items() if day > latest_day}
        if late:
            found.append(
                f"column [{table.partition_column}]: {sum(late.values())} rows have a date up to [{max(late)}], "
                f"expected at most [{latest_day}]"
            )
        other = {day: count for day, count in self.rows_by_date.items() if landed.folder_date not in (None, day)}
        if other:
            found.append(
                f"column [{table.partition_column}]: {sum(other.values())} rows have another date such as "
                f"[{min(other)}], expected its folder's [{landed.folder_date}]"
            )
        return found


def _as_date(days_since_epoch: int) -> date:
    """Return the date. A day outside the range of Python's dates becomes the first or last date of that range.

    BigQuery's dates have the same range, so `count_invalid_values` refuses the file. There is one exception: rows that
    have their folder's date are not checked, so an earlier day in the folder of 0001-01-01 passes for that date. Its
    rows are dropped, because the date is older than any retention.
    """
    return EPOCH_DAY + timedelta(days=min(max(days_since_epoch, FIRST_DAY), LAST_DAY))
