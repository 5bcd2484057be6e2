"""Writes the ranked rows of plan `window` as Parquet files, and counts them. Runs in Spark's Python workers.

The rows are sorted by date, output file and clustering columns. The result is one record for each file. Each attempt of
a Spark task writes files with unique names, and only records of attempts that Spark accepts reach the driver, so the
files of lost or repeated attempts are in no manifest.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dedup_clone.contract.manifest import EXAMPLES_PER_DATE, Difference, KeyExample
from dedup_clone.contract.table import Absent, TableContract
from dedup_spark.arrow_cast import cast_table
from dedup_spark.column_types import arrow_schema
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.data_files import write_file
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.plans.window.ranking import CHANGED, DAY, DESTINATION_FILE, IN_PARENT, NEWEST, SOURCE, SURPLUS

# A pickled pair of a DataFile and its FileCounts.
RECORD_SCHEMA = "record binary"
_RECORD_ARROW = pa.schema([("record", pa.binary())])


@dataclass(frozen=True)
class RowWriter:
    """Writes the rows of Spark tasks. `newest_source`: for each date the highest number of a source that has it.

    A row whose key that source lacks is a survivor.
    """

    table: TableContract
    data_uri: str
    newest_source: dict[date, int]

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one task. Yield the records of its files."""
        rows = (some for batch in batches for some in self._retained(batch))
        for (day, _), of_file in groupby(rows, key=itemgetter(0)):
            counts = FileCounts(self.table, day, self.newest_source[day])
            written = write_file(self.table, self.data_uri, day, "window", (counts.add(some) for _, some in of_file))
            assert written  # of each key in the file, one row is not surplus
            record = pa.array([pickle.dumps((written, counts))], pa.binary())
            yield pa.RecordBatch.from_arrays([record], schema=_RECORD_ARROW)

    def _retained(self, batch: pa.RecordBatch) -> Iterator[tuple[tuple[date, int], pa.RecordBatch]]:
        """The rows of each output file, without survivors if these are deleted."""
        for output_file, rows in _split(batch):
            if self.table.absent_keys is Absent.DELETE:
                rows = rows.filter(pc.greater_equal(rows.column(NEWEST), self.newest_source[output_file[0]]))
            if rows.num_rows:
                yield output_file, rows


@dataclass
class FileCounts:
    """Counts the rows of one file: `differing` by difference, and `surplus` rows by the number of their source."""

    table: TableContract
    day: date
    newest_source: int
    differing: Counter[Difference] = field(default_factory=Counter)
    surplus: Counter[int] = field(default_factory=Counter)
    examples: list[KeyExample] = field(default_factory=list)

    def add(self, rows: pa.RecordBatch) -> pa.Table:
        """Count the rows, which have the helper columns. Return those to write: all except surplus rows."""
        surplus = rows.column(SURPLUS)
        if surplus.true_count:
            self.surplus.update(rows.filter(surplus).column(SOURCE).to_pylist())
            rows = rows.filter(pc.invert(surplus))
        self._count(Difference.NEW, pc.invert(rows.column(IN_PARENT)), rows)
        self._count(Difference.CHANGED, rows.column(CHANGED), rows)
        self._count(Difference.SURVIVOR, pc.less(rows.column(NEWEST), self.newest_source), rows)
        schema = arrow_schema(self.table.columns)
        return cast_table(pa.Table.from_batches([rows.select(schema.names)]), schema)

    def _count(self, difference: Difference, differs: pa.BooleanArray, rows: pa.RecordBatch) -> None:
        needed_examples = EXAMPLES_PER_DATE - self.differing[difference]
        self.differing[difference] += differs.true_count
        if differs.true_count and needed_examples > 0:
            some = rows.take(pc.indices_nonzero(differs)[:needed_examples])
            keys = key_texts(self.table, [some.column(column.name).to_pylist() for column in key_columns(self.table)])
            self.examples += [KeyExample(self.day, difference, key) for key in keys]


def _split(batch: pa.RecordBatch) -> Iterator[tuple[tuple[date, int], pa.RecordBatch]]:
    """Yield, for each output file in the batch, its date and number, and its rows."""
    if not batch.num_rows:
        return
    days = batch.column(DAY)
    day_numbers = days.cast(pa.int32()).to_numpy()
    files = batch.column(DESTINATION_FILE).to_numpy()
    cuts = np.flatnonzero((np.diff(day_numbers) != 0) | (np.diff(files) != 0)) + 1
    for start, end in zip([0, *cuts], [*cuts, batch.num_rows], strict=True):
        yield (days[start].as_py(), int(files[start])), batch.slice(start, end - start)
