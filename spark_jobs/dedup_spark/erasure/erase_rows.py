"""Leaves the rows of erased keys out of a generation whose files the plans have written.

This step follows all plans, so that no plan needs to know of erased keys. It reads the key columns of the new files,
and rewrites the files that have rows of erased keys. A publish does not read the files copied from the parent, because
the parent has no row of an erased key; an erasure reads all files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

import numpy as np

from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.erasure import ErasedRows, Tombstones
from dedup_clone.contract.manifest import DataFile, DateEntry, DateOutcome, KeyExample
from dedup_clone.contract.table import TableContract
from dedup_spark import storage
from dedup_spark.candidate.new_manifest import NewGeneration, files_digest
from dedup_spark.comparison.key_examples import key_texts
from dedup_spark.comparison.key_reader import KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.erasure.key_sets import ErasedKeySet
from dedup_spark.execution.fan_out import FanOut
from dedup_spark.output.data_file import DataFileWriter, row_groups
from dedup_spark.sketch import stored


@dataclass(frozen=True)
class ErasedRow:
    """One row that was left out. `digests`: the digests of all tombstones that match the row.

    There are several if the row's key was erased by several combinations of key columns. `key`: its key as text, by
    which examples of keys are left out. The text is stored nowhere.
    """

    date: date
    digests: tuple[str, ...]
    update_id: int
    key: str


@dataclass(frozen=True)
class _ErasedFile:
    """The erased rows of one file. `file`: the new file with the other rows; None if all rows were erased."""

    rows: tuple[ErasedRow, ...]
    file: DataFile | None


@dataclass(frozen=True)
class _FileEraser:
    """Writes one file anew without the rows of erased keys. Returns None if the file has no row of an erased key."""

    table: TableContract
    data_uri: str
    key_sets: tuple[ErasedKeySet, ...]

    def __call__(self, file: DataFile) -> _ErasedFile | None:
        reader, uri = KeyReader(self.table), storage.join(self.data_uri, file.path)
        erased: dict[int, ErasedRow] = {}
        for batch in reader.batches(uri, with_ids=True, with_values=False):
            for key_set in self.key_sets:
                for row, digest in key_set.find(batch):
                    assert batch.update_ids is not None
                    number = batch.first_row + row
                    if number in erased:  # found in another key set, too
                        erased[number] = replace(erased[number], digests=(*erased[number].digests, digest))
                        continue
                    (key,) = key_texts(self.table, [[column[row].as_py()] for column in batch.key_columns])
                    erased[number] = ErasedRow(file.date, (digest,), int(batch.update_ids[row]), key)
        if not erased:
            return None
        source = RowSource.all_rows(uri, file.rows, file.max_update_id, excluded=np.array(sorted(erased), np.int64))
        writer = None
        for rows in row_groups(read_rows(reader, source)):
            writer = writer or DataFileWriter(self.table, self.data_uri, file.date, "retained")
            writer.write(rows)
        return _ErasedFile(tuple(erased.values()), writer.close() if writer else None)


@dataclass(frozen=True)
class RowEraser:
    """Leaves the rows of erased keys out of a generation whose files are in `data_uri`.

    `key_sets`: all erased keys of the feed. `tombstones`: the keys that this attempt erases; None for a publish.
    """

    table: TableContract
    data_uri: str
    key_sets: tuple[ErasedKeySet, ...]
    tombstones: Tombstones | None

    def erase(
        self, generation: NewGeneration, newest: Delivery | None, fan_out: FanOut
    ) -> tuple[NewGeneration, ErasedRows, frozenset[tuple[date, str]]]:
        """Write the files that have erased rows anew, and delete the former files and the sketches of their dates.

        Return the generation without erased rows, the record of these rows, and their dates and keys as text. `newest`:
        the newest applied delivery; None for an erasure.
        """
        files_to_read = [f for f in generation.files if self.tombstones is not None or f.date not in generation.copied]
        eraser, size = _FileEraser(self.table, self.data_uri, self.key_sets), sum(file.size for file in files_to_read)
        results = fan_out.map(eraser, files_to_read, size, "leave erased keys out")
        found = {file: result for file, result in zip(files_to_read, results, strict=True) if result}
        rows = [row for result in found.values() for row in result.rows]
        for file in found:
            storage.delete(storage.join(self.data_uri, file.path))
        for day in {row.date for row in rows}:
            storage.delete(storage.join(self.data_uri, stored.path_of(day)))
        files = [found[file].file if file in found else file for file in generation.files]
        erased = self._with_files(generation, [file for file in files if file], rows, newest)
        return erased, self._record(rows, newest), frozenset((row.date, row.key) for row in rows)

    def _with_files(
        self, generation: NewGeneration, files: Sequence[DataFile], rows: Sequence[ErasedRow], newest: Delivery | None
    ) -> NewGeneration:
        """The generation with these `files`, without the erased `rows`. Dates that have no other rows are left out."""
        by_date: defaultdict[date, list[DataFile]] = defaultdict(list)
        for file in files:
            by_date[file.date].append(file)
        erased: defaultdict[date, list[ErasedRow]] = defaultdict(list)
        for row in rows:
            erased[row.date].append(row)
        entries = [
            _entry(entry, by_date[entry.date], erased[entry.date], newest) if entry.date in erased else entry
            for entry in generation.dates
        ]
        if newest is None:
            entries = [replace(entry, plan=DateOutcome.ERASED) for entry in entries]
        return replace(generation, dates=tuple(entry for entry in entries if entry.rows), files=tuple(files))

    def _record(self, rows: Iterable[ErasedRow], newest: Delivery | None) -> ErasedRows:
        """The record of the rows that were left out. Its `delivered` has the keys that the newest delivery contains."""
        counts: defaultdict[date, int] = defaultdict(int)
        dates: defaultdict[str, set[date]] = defaultdict(set)
        delivered: set[str] = set()
        for row in rows:
            counts[row.date] += 1
            for digest in row.digests:
                dates[digest].add(row.date)
            if newest is not None and row.update_id >= newest.snapshot_id:
                delivered.update(row.digests)
        tombstones = self.tombstones and replace(
            self.tombstones,
            keys=tuple(replace(key, dates=tuple(sorted(dates[key.digest]))) for key in self.tombstones.keys),
        )
        return ErasedRows(dict(counts), tuple(sorted(delivered)), tombstones=tombstones)


def _entry(
    entry: DateEntry, files: Sequence[DataFile], rows: Sequence[ErasedRow], newest: Delivery | None
) -> DateEntry:
    """The date's entry after `rows` were left out; `files`: its remaining files.

    In a publish all of `rows` have new keys, because the parent has no erased row. The entry has no fingerprint,
    so the next publish computes the sketch. `survivors` is corrected by update_ids: in mode last_seen the update_ids of
    survivors are below the id of the date's newest snapshot, or below that of a late delivery; in mode last_changed
    they do not tell for certain which of `rows` are survivors.
    """
    newest_ids = [entry.newest_snapshot, newest.snapshot_id if newest else None]
    base_id = min((number for number in newest_ids if number is not None), default=entry.max_update_id)
    erased_survivors = sum(row.update_id < base_id for row in rows)
    ids = [update_id for file in files for update_id in (file.min_update_id, file.max_update_id)]
    return replace(
        entry,
        rows=entry.rows - len(rows),
        new_keys=entry.new_keys if newest is None else entry.new_keys - len(rows),
        survivors=max(0, entry.survivors - erased_survivors),
        plan_reason=f"{entry.plan_reason}; without {len(rows)} rows of erased keys",
        min_update_id=min(ids, default=0),
        max_update_id=max(ids, default=0),
        key_fingerprint=None,
        files_digest=files_digest(files),
    )


def without_keys(examples: Iterable[KeyExample], keys: frozenset[tuple[date, str]]) -> list[KeyExample]:
    """The examples without those of erased keys."""
    return [example for example in examples if (example.date, example.key) not in keys]
