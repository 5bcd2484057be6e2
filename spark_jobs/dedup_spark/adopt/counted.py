"""Hashes of rows whose keys need no comparison: all that is counted is how many of them have other values.

They may be a tenth of a date. Beyond some megabytes they lie in a temporary file, in parts by their own bits, and two
sides are held against each other part by part.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO

import numpy as np
import numpy.typing as npt

from dedup_spark.adopt.changes import lacking
from dedup_spark.adopt.picked import NO_WORDS, Rows
from dedup_spark.fingerprints.key_columns import WORD_BYTES, Words

_HELD_ROWS = 1 << 19
_PART_BITS = 6
_PARTS = 1 << _PART_BITS


@dataclass(frozen=True)
class _Run:
    """First hashes in the file from byte `start` and then as many of values, both sorted by part.

    Those of part p are `bounds[p]` until `bounds[p + 1]`.
    """

    start: int
    bounds: npt.NDArray[np.int64]


@dataclass
class CountedHashes:
    """Of each row its key's first hash and its values' hash, in any order."""

    _firsts: list[Words] = field(default_factory=list)
    _contents: list[Words] = field(default_factory=list)
    _held: int = 0
    _file: IO[bytes] | None = None
    _runs: list[_Run] = field(default_factory=list)

    def add(self, firsts: Words, contents: Words) -> None:
        self._firsts.append(firsts)
        self._contents.append(contents)
        self._held += len(firsts)
        if self._held > _HELD_ROWS:
            self.write()

    @property
    def is_on_disk(self) -> bool:
        return self._file is not None

    def part(self, number: int) -> tuple[Words, Words]:
        """Those whose values' hash begins with these bits, where all are written."""
        found = [(NO_WORDS, NO_WORDS), *(self._read(run, number) for run in self._runs)]
        return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])

    def held(self) -> tuple[Words, Words]:
        """Those in memory: all of them unless some are on disk."""
        return np.concatenate([NO_WORDS, *self._firsts]), np.concatenate([NO_WORDS, *self._contents])

    def write(self) -> None:
        """What is held goes to the file."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="dedup-clone-")  # noqa: SIM115 - gone with this object
        firsts, contents = self.held()
        parts = _part_of(contents)
        order = np.argsort(parts, kind="stable")
        bounds = np.searchsorted(parts[order], np.arange(_PARTS + 1))
        self._runs.append(_Run(self._file.seek(0, 2), bounds))
        for words in (firsts, contents):
            self._file.write(words[order].data)
        self._firsts, self._contents, self._held = [], [], 0

    def _read(self, run: _Run, number: int) -> tuple[Words, Words]:
        begin, end, whole = (int(run.bounds[place]) for place in (number, number + 1, -1))
        return self._words(run.start, begin, end), self._words(run.start, whole + begin, whole + end)

    def _words(self, start: int, begin: int, end: int) -> Words:
        assert self._file
        self._file.seek(start + begin * WORD_BYTES)
        return np.frombuffer(self._file.read((end - begin) * WORD_BYTES), dtype=np.uint64)


def count_changed(
    state: Sequence[CountedHashes], newest: Sequence[CountedHashes], only: Callable[[Words], Rows] | None
) -> int:
    """How many rows of the parent have values that the newest delivery has not. `only` chooses rows by first hashes."""
    if not any(side.is_on_disk for side in (*state, *newest)):
        return lacking(*(_chosen([side.held() for side in sides], only) for sides in (state, newest)))
    for side in (*state, *newest):
        side.write()
    return sum(
        lacking(*(_chosen([side.part(number) for side in sides], only) for sides in (state, newest)))
        for number in range(_PARTS)
    )


def _chosen(found: Sequence[tuple[Words, Words]], only: Callable[[Words], Rows] | None) -> Words:
    """The hashes of values of the chosen rows."""
    return np.concatenate([NO_WORDS, *(contents[only(firsts)] if only else contents for firsts, contents in found)])


def _part_of(contents: Words) -> npt.NDArray[np.uint8]:
    return (contents >> np.uint64(64 - _PART_BITS)).astype(np.uint8)
