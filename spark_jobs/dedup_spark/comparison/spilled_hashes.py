"""Counts changed rows among rows whose keys need no comparison, by their hashes alone.

Such rows may be a tenth of a date. If their hashes take more than some megabytes, they are written to a temporary file,
partitioned by bits of the value hash. The two inputs are then compared partition by partition.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO

import numpy as np
import numpy.typing as npt

from dedup_spark.arrays import EMPTY_U64, I64Array, Indices, U64Array
from dedup_spark.comparison.changed_rows import count_missing
from dedup_spark.fingerprints.key_columns import WORD_BYTES

_ROWS_IN_MEMORY = 1 << 19
_PARTITION_BITS = 6
_PARTITIONS = 1 << _PARTITION_BITS


@dataclass(frozen=True)
class _Run:
    """One spill: first hashes in the file from byte `start`, then as many value hashes, both sorted by partition.

    The rows of partition p are `bounds[p]` to `bounds[p + 1]`.
    """

    start: int
    bounds: I64Array


@dataclass
class SpillableHashes:
    """The first hash and the value hash of rows, in any order."""

    _first_hashes: list[U64Array] = field(default_factory=list)
    _value_hashes: list[U64Array] = field(default_factory=list)
    _rows_in_memory: int = 0
    _file: IO[bytes] | None = None
    _runs: list[_Run] = field(default_factory=list)

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
        found = [(EMPTY_U64, EMPTY_U64), *(self._read(run, number) for run in self._runs)]
        return np.concatenate([first for first, _ in found]), np.concatenate([value for _, value in found])

    def in_memory(self) -> tuple[U64Array, U64Array]:
        """First and value hashes that were not spilled."""
        return np.concatenate([EMPTY_U64, *self._first_hashes]), np.concatenate([EMPTY_U64, *self._value_hashes])

    def spill(self) -> None:
        """Moves what is in memory to the file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dedup-clone-")  # noqa: SIM115 - deleted with this object
        first_hashes, value_hashes = self.in_memory()
        partitions = _partition_of(value_hashes)
        order = np.argsort(partitions, kind="stable")
        bounds = np.searchsorted(partitions[order], np.arange(_PARTITIONS + 1))
        self._runs.append(_Run(self._file.seek(0, 2), bounds))
        for hashes in (first_hashes, value_hashes):
            self._file.write(hashes[order].data)
        self._first_hashes, self._value_hashes, self._rows_in_memory = [], [], 0

    def _read(self, run: _Run, partition: int) -> tuple[U64Array, U64Array]:
        begin, end, rows = (int(run.bounds[number]) for number in (partition, partition + 1, -1))
        return self._hashes(run.start, begin, end), self._hashes(run.start, rows + begin, rows + end)

    def _hashes(self, start: int, begin: int, end: int) -> U64Array:
        assert self._file
        self._file.seek(start + begin * WORD_BYTES)
        return np.frombuffer(self._file.read((end - begin) * WORD_BYTES), dtype=np.uint64)


def count_changed_rows(
    parent: Sequence[SpillableHashes],
    newest: Sequence[SpillableHashes],
    select: Callable[[U64Array], Indices] | None,
) -> int:
    """How many rows of the parent have values that the newest delivery lacks.

    `select` chooses the rows to count by their first hashes; all rows count when it is None.
    """
    if not any(hashes.is_on_disk for hashes in (*parent, *newest)):
        return count_missing(
            *(_value_hashes([part.in_memory() for part in parts], select) for parts in (parent, newest))
        )
    for hashes in (*parent, *newest):
        hashes.spill()
    return sum(
        count_missing(
            *(_value_hashes([part.partition(number) for part in parts], select) for parts in (parent, newest))
        )
        for number in range(_PARTITIONS)
    )


def _value_hashes(
    hashes: Sequence[tuple[U64Array, U64Array]], select: Callable[[U64Array], Indices] | None
) -> U64Array:
    """The value hashes of the selected rows."""
    return np.concatenate([EMPTY_U64, *(values[select(firsts)] if select else values for firsts, values in hashes)])


def _partition_of(value_hashes: U64Array) -> npt.NDArray[np.uint8]:
    return (value_hashes >> np.uint64(64 - _PARTITION_BITS)).astype(np.uint8)
