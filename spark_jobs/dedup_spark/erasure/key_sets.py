"""Reads the erased keys as sets of hashes: one set for each combination of key columns by which keys were erased.

A key is stored as two 64-bit hashes that depend on the feed's secret seed: without the seed, nobody can find the key
from the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.erasure import Erasure, KeysToErase, Tombstone, Tombstones, parse_keys
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import from_json
from dedup_spark import storage
from dedup_spark.arrays import Indices, U64Array
from dedup_spark.column_types import arrow_type
from dedup_spark.comparison.key_reader import KeyBatch
from dedup_spark.fingerprints.hashing import VERSION, KeyHasher
from dedup_spark.fingerprints.key_columns import key_columns
from dedup_spark.fingerprints.seed import Seed


@dataclass(frozen=True)
class ErasedKeySet:
    """Erased keys for which the same key columns were given, in the order of their first hashes.

    `positions`: the positions of these columns among the table's key columns. `first`, `second`: the two hashes of each
    key. `absent_since`: for each key the highest update_id of rows that are erased; rows above it are kept. -1: all
    rows are erased.
    """

    hasher: KeyHasher
    positions: tuple[int, ...]
    first: U64Array
    second: U64Array
    absent_since: tuple[int, ...]

    def find(self, batch: KeyBatch) -> list[tuple[int, str]]:
        """The rows of the batch whose keys are erased: their numbers in the batch, and the digests of their keys."""
        values = [batch.key_columns[position] for position in self.positions]
        firsts = self.hasher.first(values)
        suspects: Indices = np.flatnonzero(np.isin(firsts, self.first))
        if not len(suspects):
            return []
        assert batch.update_ids is not None
        _, seconds = self.hasher.both([value.take(pa.array(suspects)) for value in values])
        found = []
        for row, second in zip(suspects.tolist(), seconds.tolist(), strict=True):
            position = self._position(int(firsts[row]), second)
            if position is not None and _is_erased(self.absent_since[position], int(batch.update_ids[row])):
                found.append((row, _digest(int(firsts[row]), second)))
        return found

    def _position(self, first: int, second: int) -> int | None:
        """The position of the key with these two hashes in `first` and `second`; None if the set lacks the key."""
        start = int(np.searchsorted(self.first, np.uint64(first)))
        stop = int(np.searchsorted(self.first, np.uint64(first), side="right"))
        return next((position for position in range(start, stop) if int(self.second[position]) == second), None)


def _is_erased(absent_since: int, update_id: int) -> bool:
    return absent_since < 0 or update_id <= absent_since


def _digest(first: int, second: int) -> str:
    return f"{first:016x}{second:016x}"


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
    first, second = KeyHasher(keys.columns, seed).both(values)
    digests = [_digest(*pair) for pair in zip(first.tolist(), second.tolist(), strict=True)]
    return Tombstones(names, seed.public_id, VERSION, tuple(Tombstone(digest) for digest in digests))


def _key_set(attempt: Attempt, names: tuple[str, ...], tombstones: Sequence[Tombstones], seed: Seed) -> ErasedKeySet:
    """The erased keys for which the columns `names` were given. `tombstones`: all tombstones, the oldest first."""
    # If a key was erased twice, the later erasure overwrites the earlier one.
    latest = {key.digest: key for item in tombstones if item.columns == names for key in item.keys}
    ordered = [latest[digest] for digest in sorted(latest)]
    table_keys = [column.name for column in key_columns(attempt.table)]
    return ErasedKeySet(
        hasher=KeyHasher(tuple(attempt.table.column(name) for name in names), seed),
        positions=tuple(table_keys.index(name) for name in names),
        first=np.array([int(key.digest[:16], 16) for key in ordered], np.uint64),
        second=np.array([int(key.digest[16:], 16) for key in ordered], np.uint64),
        absent_since=tuple(-1 if key.absent_since is None else key.absent_since for key in ordered),
    )
