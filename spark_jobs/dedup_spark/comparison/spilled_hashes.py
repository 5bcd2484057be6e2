"""Counts changed rows among the rows whose keys need no comparison, by two hashes of each row.

The two are the first hash of the key and the value hash. Rows are partitioned by the value hash, and compared partition
by partition. The hashes of many rows go to a temporary file, because such rows, whose values may differ, can be a tenth
of a date's rows. `SplitKeySource.repeated_hashes` uses the partitions too, to find first hashes that several rows have.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from dedup_spark import storage
from dedup_spark.arrays import EMPTY_U64, I64Array, Indices, U64Array
from dedup_spark.comparison.changed_rows import count_missing
from dedup_spark.fingerprints.key_columns import WORD_BYTES

# Hashes are moved to the temporary file when those of more than this many rows are in memory.
_ROWS_IN_MEMORY = 1 << 19
# The number of partitions, unless the caller chooses another.
PARTITIONS = 64
# The bits of half a hash, and a mask of its lower half.
_HALF, _LOWER_HALF = np.uint64(32), np.uint64(0xFFFFFFFF)


@dataclass(frozen=True)
class _Spill:
    """What one call of `spill` wrote: first hashes from byte `start` on, then as many value hashes.

    Both are sorted by partition. The rows of partition p are `bounds[p]` to `bounds[p + 1] - 1`.
    """

    start: int
    bounds: I64Array


@dataclass(frozen=True)
class SavedHashes:
    """An object with the first hashes and the value hashes of each partition, one partition after the other.

    `row_counts`: the number of rows of each partition.
    """

    uri: str
    row_counts: tuple[int, ...]

    @property
    def partition_count(self) -> int:
        return len(self.row_counts)

    def partition(self, number: int) -> tuple[U64Array, U64Array]:
        """First and value hashes of one partition."""
        count = self.row_counts[number]
        if not count:
            return EMPTY_U64, EMPTY_U64
        with storage.open_input(self.uri) as file:
            content = file.read_at(2 * count * WORD_BYTES, 2 * sum(self.row_counts[:number]) * WORD_BYTES)
        both = np.frombuffer(content, dtype=np.uint64)
        return both[:count], both[count:]


@dataclass
class SpillableHashes:
    """The first hash and the value hash of rows, in any order. The value hash chooses a row's partition.

    To find repeated first hashes, a caller passes them as value hashes, too.
    """

    partition_count: int = PARTITIONS
    _first_hashes: list[U64Array] = field(default_factory=list)
    _value_hashes: list[U64Array] = field(default_factory=list)
    _rows_in_memory: int = 0
    _file: IO[bytes] | None = None
    _spills: list[_Spill] = field(default_factory=list)

    def add(self, first_hashes: U64Array, value_hashes: U64Array) -> None:
        self._first_hashes.append(first_hashes)
        self._value_hashes.append(value_hashes)
        self._rows_in_memory += len(first_hashes)
        if self._rows_in_memory > _ROWS_IN_MEMORY:
            self.spill()

    @property
    def is_on_disk(self) -> bool:
        return self._file is not None

    def partition(self, number: int) -> tuple[U64Array, U64Array]:
        """First and value hashes of one partition. All rows must have been spilled."""
        return _concat([self._read(spill, number) for spill in self._spills])

    def save(self, uri: str) -> SavedHashes:
        """Write all hashes as one object, partition after partition."""
        self.spill()
        row_counts = []
        with storage.open_output(uri) as stream:
            for number in range(self.partition_count):
                hashes = self.partition(number)
                row_counts.append(len(hashes[0]))
                for array in hashes:
                    stream.write(array.data.cast("B") if len(array) else b"")
        return SavedHashes(uri, tuple(row_counts))

    def in_memory(self) -> tuple[U64Array, U64Array]:
        """First and value hashes that have not been spilled."""
        return np.concatenate([EMPTY_U64, *self._first_hashes]), np.concatenate([EMPTY_U64, *self._value_hashes])

    def spill(self) -> None:
        """Move the hashes from memory to the file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dedup-clone-")  # noqa: SIM115 - deleted with this object
        first_hashes, value_hashes = self.in_memory()
        partitions = _partition_of(value_hashes, self.partition_count)
        order = np.argsort(partitions, kind="stable")
        bounds = np.searchsorted(partitions[order], np.arange(self.partition_count + 1))
        self._spills.append(_Spill(self._file.seek(0, 2), bounds))
        for hashes in (first_hashes, value_hashes):
            self._file.write(hashes[order].data)
        self._first_hashes, self._value_hashes, self._rows_in_memory = [], [], 0

    def _read(self, spill: _Spill, partition: int) -> tuple[U64Array, U64Array]:
        begin, end, rows = (int(spill.bounds[number]) for number in (partition, partition + 1, -1))
        return self._hashes(spill.start, begin, end), self._hashes(spill.start, rows + begin, rows + end)

    def _hashes(self, start: int, begin: int, end: int) -> U64Array:
        """The hashes with the indices `begin` to `end - 1` of the array that is stored from byte `start` on."""
        assert self._file
        self._file.seek(start + begin * WORD_BYTES)
        return np.frombuffer(self._file.read((end - begin) * WORD_BYTES), dtype=np.uint64)


PartitionedHashes = SpillableHashes | SavedHashes


@dataclass(frozen=True)
class ChangedRowsCounter:
    """Counts the changed rows: rows of the parent whose value hash the newest delivery lacks.

    `parent`, `newest`: their hashes, all with the same number of partitions. `select`: returns the indices of the rows
    to count, given the first hashes of some rows; None to count all rows.
    """

    parent: Sequence[PartitionedHashes]
    newest: Sequence[PartitionedHashes]
    select: Callable[[U64Array], Indices] | None

    @property
    def partition_count(self) -> int:
        return max((hashes.partition_count for hashes in self.parent), default=0)

    def total(self) -> int:
        """Return the number of changed rows. Only for a date that is not split: all its hashes are SpillableHashes."""
        spillable = [hashes for hashes in (*self.parent, *self.newest) if isinstance(hashes, SpillableHashes)]
        assert len(spillable) == len(self.parent) + len(self.newest)
        if not any(hashes.is_on_disk for hashes in spillable):
            return self._count(lambda hashes: hashes.in_memory())
        for hashes in spillable:
            hashes.spill()
        return sum(map(self, range(self.partition_count)))

    def __call__(self, number: int) -> int:
        """Return the number of changed rows in one partition."""
        return self._count(lambda hashes: hashes.partition(number))

    def _count(self, read: Callable[[Any], tuple[U64Array, U64Array]]) -> int:
        parent, newest = (_value_hashes(map(read, side), self.select) for side in (self.parent, self.newest))
        return count_missing(parent, newest)


def _value_hashes(
    hashes: Iterable[tuple[U64Array, U64Array]], select: Callable[[U64Array], Indices] | None
) -> U64Array:
    """The value hashes of the selected rows."""
    return np.concatenate([EMPTY_U64, *(values[select(firsts)] if select else values for firsts, values in hashes)])


def _concat(hashes: Sequence[tuple[U64Array, U64Array]]) -> tuple[U64Array, U64Array]:
    found = [(EMPTY_U64, EMPTY_U64), *hashes]
    return np.concatenate([first for first, _ in found]), np.concatenate([value for _, value in found])


def _partition_of(value_hashes: U64Array, partition_count: int) -> npt.NDArray[np.uint16]:
    # By the lower half: `count_missing` looks up the hashes of a partition by their highest bits, so these must vary in
    # the partition.
    return (((value_hashes & _LOWER_HALF) * np.uint64(partition_count)) >> _HALF).astype(np.uint16)
