"""One landed file, judged: its footer, and the decoded values of all its rows.

Footer statistics are never believed. Every column is decoded, for a file may be loaded as it is: a page that nobody
could read, or a value that BigQuery has no place for, would fail the load of all that came with it. Runs on the driver
or on executors, one call a file; what comes back are counts, never rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dedup_clone.contract.table import ColumnMode, TableContract
from dedup_spark import storage
from dedup_spark.landing.page_formats import unsupported_formats
from dedup_spark.landing.parquet_footer import Footer, read_footer
from dedup_spark.landing.unreadable import unreadable
from dedup_spark.landing.value_checks import Faults, count_faults, plain

_BATCH_ROWS = 1 << 17
_EPOCH = date(1970, 1, 1)
# Such a file comes whole with one request; a larger one is read where its footer says.
_READ_WHOLE_BYTES = 4 << 20


@dataclass(frozen=True)
class LandedFile:
    """A data file of a delivery; `folder_date` is None when the feed has no date folders."""

    uri: str
    size: int
    snapshot_id: int
    folder_date: date | None


@dataclass(frozen=True)
class Inspected:
    """`spark_schema` is JSON, and reads the file when there are no `problems`. `rows_by_date` counts all rows.

    `is_as_written`: columns, types and modes are exactly those that the job writes, so that BigQuery loads the file
    together with written ones. `is_castable`: pyarrow brings them into that form.
    """

    file: LandedFile
    spark_schema: str
    rows_by_date: dict[date, int]
    problems: tuple[str, ...]
    is_as_written: bool = False
    is_castable: bool = False


@dataclass(frozen=True)
class Inspector:
    """Judges files of one request. `own_ids`: rows have update ids of their own, not the folder's."""

    table: TableContract
    latest_day: date
    own_ids: bool = False

    def __call__(self, landed: LandedFile) -> Inspected:
        if not landed.size:
            return self._refused(landed, "is empty (0 bytes), expected a Parquet file")
        if landed.size > _READ_WHOLE_BYTES:
            try:
                with storage.open_input(landed.uri) as source:
                    return self._judge(landed, source)
            except Exception:
                # The storage may have failed and not the file: only what fails in memory too is the file's fault.
                pass
        with storage.open_input(landed.uri) as source:
            content = source.read()
        try:
            return self._judge(landed, pa.BufferReader(content))
        except Exception as error:  # whatever a damaged file makes of its reader: it must not end the run for others
            return self._refused(landed, unreadable(content, error))

    def _judge(self, landed: LandedFile, source: pa.NativeFile) -> Inspected:
        with open_landed(source) as file:
            judgement = self.begin(landed, file)
            if judgement.footer.problems:
                return self._refused(landed, *judgement.footer.problems)
            for group in range(file.num_row_groups):  # one at a time: pages of a whole large file are not held
                for batch in file.iter_batches(_BATCH_ROWS, row_groups=[group], use_threads=False):
                    judgement.add(batch)
            return judgement.inspected(file)

    def begin(self, landed: LandedFile, file: pq.ParquetFile) -> Judgement:
        """Judges the footer; whoever reads the file's rows adds them all."""
        return Judgement(self.table, landed, self.latest_day, read_footer(self.table, file), own_ids=self.own_ids)

    @staticmethod
    def _refused(landed: LandedFile, *problems: str) -> Inspected:
        return Inspected(landed, "", {}, tuple(f"file [{landed.uri}] {problem}" for problem in problems))


def open_landed(source: pa.NativeFile) -> pq.ParquetFile:
    """A reader that compares the checksums of pages with what they hold."""
    return pq.ParquetFile(source, pre_buffer=True, page_checksum_verification=True)


@dataclass
class Judgement:
    """What is wrong with a file: its footer, and its rows as far as their batches were added (of all columns)."""

    table: TableContract
    landed: LandedFile
    latest_day: date
    footer: Footer
    by_date: Counter[date] = field(default_factory=Counter)
    nulls: Counter[str] = field(default_factory=Counter)
    faults: Faults = field(default_factory=Counter)
    other_ids: int = 0
    own_ids: bool = False

    def add(self, batch: pa.RecordBatch) -> None:
        table = self.table
        required = [c.name for c in table.columns if c.mode is ColumnMode.REQUIRED]
        for name in {*table.keys, table.snapshot_id_column, *required}:
            self.nulls[name] += batch.column(name).null_count
        only_folders = self._count_dates(
            plain(batch.column(table.partition_column)).drop_null().cast(pa.date32()).cast(pa.int32())
        )
        for column in table.columns:
            # The date of a folder is a date that BigQuery has.
            if column.name != table.partition_column or not only_folders:
                count_faults(column, batch.column(column.name), self.faults)
        if not self.own_ids:
            self._count_other_ids(plain(batch.column(table.snapshot_id_column)).drop_null().cast(pa.int64()))

    def _count_other_ids(self, ids: pa.Array) -> None:
        bounds, expected = pc.min_max(ids), self.landed.snapshot_id
        if len(ids) and not bounds["min"].as_py() == bounds["max"].as_py() == expected:
            self.other_ids += pc.not_equal(ids, expected).true_count

    def _count_dates(self, days: pa.Array) -> bool:
        """Whether all are the folder's."""
        bounds = pc.min_max(days)
        if len(days) and bounds["min"] == bounds["max"]:
            day = _day(bounds["min"].as_py())
            self.by_date[day] += len(days)
            return day == self.landed.folder_date
        for entry in pc.value_counts(days):
            self.by_date[_day(entry["values"].as_py())] += entry["counts"].as_py()
        return False

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong so far."""
        return not self.footer.problems and not self._problems()

    def inspected(self, file: pq.ParquetFile) -> Inspected:
        """The verdict, when all rows were added."""
        # Only now: pyarrow ends the process when it is asked how an encrypted column is written.
        found = unsupported_formats(file.metadata) + self._problems()
        problems = tuple(f"file [{self.landed.uri}] {problem}" for problem in found)
        by_date, footer = dict(self.by_date), self.footer
        return Inspected(self.landed, footer.schema.json(), by_date, problems, footer.is_as_written, footer.is_castable)

    def _problems(self) -> list[str]:
        table, landed = self.table, self.landed
        found = [
            f"column [{name}]: {count} rows are [NULL], expected none"
            for name, count in sorted(self.nulls.items())
            if count
        ]
        found += [f"column [{path}]: {count} {what}" for (path, what), count in sorted(self.faults.items())]
        late = {day: count for day, count in self.by_date.items() if day > self.latest_day}
        if late:
            found.append(
                f"column [{table.partition_column}]: {sum(late.values())} rows have a date up to [{max(late)}], "
                f"expected at most [{self.latest_day}]"
            )
        other = {day: count for day, count in self.by_date.items() if landed.folder_date not in (None, day)}
        if other:
            found.append(
                f"column [{table.partition_column}]: {sum(other.values())} rows have another date such as "
                f"[{min(other)}], expected its folder's [{landed.folder_date}]"
            )
        if self.other_ids:
            found.append(
                f"column [{table.snapshot_id_column}]: {self.other_ids} rows have another id, "
                f"expected the folder's [{landed.snapshot_id}]"
            )
        return found


def _day(days_since_epoch: int) -> date:
    """A day that Python has no date for counts as the first or last that it has, far outside the contract."""
    earliest, latest = (date.min - _EPOCH).days, (date.max - _EPOCH).days
    return _EPOCH + timedelta(days=min(max(days_since_epoch, earliest), latest))
