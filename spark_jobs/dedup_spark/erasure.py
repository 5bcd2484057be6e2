"""Leaves the rows of erased keys out of a generation whose files the plans have written.

This step follows all plans, so that no plan needs to know of erased keys. It reads the key columns of the new files,
and rewrites the files that have rows of erased keys. A publish does not read the files copied from the parent, because
the parent has no row of an erased key; an erasure reads all files.

A key is stored as two 64-bit hashes that depend on the feed's secret seed: without the seed, nobody can find the key
from the record.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial

import numpy as np
import pyarrow as pa

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.contract.erasure import ErasedRows, Erasure, KeysToErase, Tombstone, Tombstones, parse_keys
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.manifest import DataFile, DateEntry, DateOutcome
from dedup_clone.contract.records import from_json
from dedup_clone.contract.table import Absent, TableContract, UpdateIdMode
from dedup_spark import storage
from dedup_spark.arrays import Indices, U64Array
from dedup_spark.column_types import arrow_type
from dedup_spark.comparison.key_reader import KeyBatch, KeyReader
from dedup_spark.comparison.row_reader import RowSource, read_rows
from dedup_spark.data_files import write_file
from dedup_spark.execution.fan_out import map_objects
from dedup_spark.execution.session import SessionSource
from dedup_spark.fingerprints.hashing import VERSION, KeyHasher
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed, read_seed
from dedup_spark.generation import NewGeneration, files_digest
from dedup_spark.parent import files_by_date
from dedup_spark.sketch import stored


def erase_rows(
    attempt: Attempt, generation: NewGeneration, newest: Delivery | None, session: SessionSource
) -> tuple[NewGeneration, ErasedRows]:
    """Write the files that have erased rows anew, and delete the former files and the sketches of their dates.

    Return the generation without erased rows, and the record of these rows. `newest`: the newest applied delivery; None
    for an erasure. Raises what `read_key_sets` raises.
    """
    key_sets, tombstones = read_key_sets(attempt, read_seed(attempt.seed_uri))
    to_read = [file for file in generation.files if newest is None or file.date not in generation.copied]
    work = partial(_erase_in_file, attempt.table, attempt.data_uri, tuple(key_sets))
    sizes = [file.size for file in to_read]
    results = map_objects(session, work, to_read, sizes, "leave erased keys out")
    found = {file: result for file, result in zip(to_read, results, strict=True) if result}
    erased: defaultdict[date, list[ErasedRow]] = defaultdict(list)
    for file, result in found.items():
        erased[file.date] += result.rows
    paths = [*(file.path for file in found), *map(stored.path_of, erased)]
    uris = [storage.join(attempt.data_uri, path) for path in paths]
    map_objects(session, storage.delete, uris, [0] * len(uris), "delete files with erased keys")
    files = [found[file].file if file in found else file for file in generation.files]
    remaining = [file for file in files if file]
    by_date = files_by_date(remaining)
    entries = [
        _entry(entry, by_date[entry.date], erased[entry.date], newest) if entry.date in erased else entry
        for entry in generation.dates
    ]
    if newest is None:
        entries = [replace(entry, plan=DateOutcome.ERASED) for entry in entries]
    # If rows are deleted that a newer snapshot lacks, a date without rows tells which snapshot that is.
    is_last_seen = attempt.update_id_mode is UpdateIdMode.LAST_SEEN  # else no older snapshot is published
    keeps_dates = is_last_seen and attempt.table.absent_keys is Absent.DELETE
    dates = tuple(entry for entry in entries if entry.rows or keeps_dates)
    rows = [row for of_date in erased.values() for row in of_date]
    return replace(generation, dates=dates, files=tuple(remaining)), _record(rows, newest, tombstones)


@dataclass(frozen=True)
class ErasedRow:
    """One row that was left out. `digests`: the digests of all tombstones that match the row.

    There are several if the row's key was erased by several combinations of key columns.
    """

    date: date
    digests: tuple[str, ...]
    update_id: int


@dataclass(frozen=True)
class _ErasedFile:
    """The erased rows of one file. `file`: the new file with the other rows; None if all rows were erased."""

    rows: tuple[ErasedRow, ...]
    file: DataFile | None


def _erase_in_file(
    table: TableContract, data_uri: str, key_sets: Sequence[ErasedKeySet], file: DataFile
) -> _ErasedFile | None:
    """Write the file anew without the rows of erased keys. Return None if it has no such row."""
    reader, uri = KeyReader(table), storage.join(data_uri, file.path)
    erased: dict[int, ErasedRow] = {}
    for batch in reader.batches(uri, with_values=False):
        for row, digest in (found for key_set in key_sets for found in key_set.find(batch)):
            number = batch.first_row + row
            if number in erased:  # found in another key set, too
                erased[number] = replace(erased[number], digests=(*erased[number].digests, digest))
                continue
            erased[number] = ErasedRow(file.date, (digest,), int(batch.update_ids[row]))
    if not erased:
        return None
    source = RowSource.all_rows(uri, file.rows, excluded=np.array(sorted(erased), np.int64))
    retained = write_file(table, data_uri, file.date, "retained", read_rows(reader, source))
    return _ErasedFile(tuple(erased.values()), retained)


def _record(rows: Iterable[ErasedRow], newest: Delivery | None, tombstones: Tombstones | None) -> ErasedRows:
    """The record of the rows that were left out. Its `delivered` has the keys that the newest delivery contains.

    `tombstones`: the keys that this attempt erases; None for a publish.
    """
    counts: Counter[date] = Counter()
    dates: defaultdict[str, set[date]] = defaultdict(set)
    delivered: set[str] = set()
    for row in rows:
        counts[row.date] += 1
        for digest in row.digests:
            dates[digest].add(row.date)
        if newest is not None and row.update_id >= newest.snapshot_id:
            delivered.update(row.digests)
    if tombstones:
        keys = tuple(replace(key, dates=tuple(sorted(dates[key.digest]))) for key in tombstones.keys)
        tombstones = replace(tombstones, keys=keys)
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
        min_update_id=min(ids, default=entry.min_update_id),
        max_update_id=max(ids, default=entry.max_update_id),
        key_fingerprint=None,
        files_digest=files_digest(files),
    )


@dataclass(frozen=True)
class ErasedKeySet:
    """Erased keys for which the same key columns were given.

    `positions`: the positions of these columns among the table's key columns. `first`: the first of the two hashes of
    each key. `absent_since`: by the digest of each key the highest update_id of rows that are erased; rows above it are
    kept. None: all rows are erased.
    """

    hasher: KeyHasher
    positions: tuple[int, ...]
    first: U64Array
    absent_since: dict[str, int | None]

    def find(self, batch: KeyBatch) -> list[tuple[int, str]]:
        """The rows of the batch whose keys are erased: their numbers in the batch, and the digests of their keys."""
        values = [batch.key_columns[position] for position in self.positions]
        suspects: Indices = np.flatnonzero(np.isin(self.hasher.first(values), self.first))
        if not len(suspects):
            return []
        hashes = self.hasher.both([value.take(pa.array(suspects)) for value in values])
        found = zip(suspects.tolist(), _digests(*hashes), batch.update_ids[suspects].tolist(), strict=True)
        return [(row, digest) for row, digest, update_id in found if self._is_erased(digest, update_id)]

    def _is_erased(self, digest: str, update_id: int) -> bool:
        if digest not in self.absent_since:
            return False
        absent_since = self.absent_since[digest]
        return absent_since is None or update_id <= absent_since


def _digests(first: U64Array, second: U64Array) -> list[str]:
    return [f"{one:016x}{other:016x}" for one, other in zip(first.tolist(), second.tolist(), strict=True)]


def read_key_sets(attempt: Attempt, seed: Seed) -> tuple[list[ErasedKeySet], Tombstones | None]:
    """Return the keys that the new generation must not have, and the tombstones of those that this attempt erases.

    The tombstones are None for a publish. Raises ContractViolation if a record was made with another seed or other hash
    functions, and ConfigurationError if the file of keys to erase is malformed.
    """
    tombstones = [_read_record(attempt, uri, seed) for uri in attempt.erasures]
    erased = None
    if attempt.erases:
        erased = _tombstones(parse_keys(storage.read_text(attempt.erases), attempt.table), seed)
        tombstones.append(erased)
    columns = dict.fromkeys(item.columns for item in tombstones)
    return [_key_set(attempt, names, tombstones, seed) for names in columns], erased


def _read_record(attempt: Attempt, uri: str, seed: Seed) -> Tombstones:
    found = from_json(Erasure, storage.read_text(uri), where=uri).tombstones
    if (found.seed_id, found.hash_version) != (seed.public_id, VERSION):
        raise ContractViolation(
            f"Erasure [{uri}] was made with another fingerprint seed or by another release, so its keys cannot be "
            f"recognized any more. Restore [{attempt.seed_uri}] from its versions; or move the record away "
            f"and erase the same keys again."
        )
    return found


def _tombstones(keys: KeysToErase, seed: Seed) -> Tombstones:
    names = tuple(column.name for column in keys.columns)
    values = [
        pa.array([row[position] for row in keys.rows], arrow_type(column))
        for position, column in enumerate(keys.columns)
    ]
    digests = _digests(*KeyHasher(keys.columns, seed).both(values))
    return Tombstones(names, seed.public_id, VERSION, tuple(Tombstone(digest) for digest in digests))


def _key_set(attempt: Attempt, names: tuple[str, ...], tombstones: Sequence[Tombstones], seed: Seed) -> ErasedKeySet:
    """The erased keys for which the columns `names` were given. `tombstones`: all tombstones, the oldest first."""
    # If a key was erased twice, the later erasure overwrites the earlier one.
    latest = {key.digest: key.absent_since for item in tombstones if item.columns == names for key in item.keys}
    table_keys = [column.name for column in key_columns(attempt.table)]
    return ErasedKeySet(
        hasher=KeyHasher(tuple(attempt.table.column(name) for name in names), seed),
        positions=tuple(table_keys.index(name) for name in names),
        first=np.array([int(digest[:16], 16) for digest in latest], np.uint64),
        absent_since=latest,
    )
