"""One side of a date's comparison: the files of a delivery or of the parent, streamed at most twice.

The first pass sums up fingerprints, the second picks the keys of the buckets that differ. What fits the budget is held
between the passes; the rest is decoded again, so that memory does not grow with the date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Lock
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.adopt.counted import CountedHashes
from dedup_spark.adopt.key_reader import KeyBatch, KeyReader, Numbers
from dedup_spark.adopt.picked import NO_ROWS, NO_WORDS, Choose, Picked, Rows, in_one_piece, joined, picked_only
from dedup_spark.adopt.rows import RowSource, read_rows, row_numbers
from dedup_spark.column_types import SCALARS
from dedup_spark.fan_out import dealt
from dedup_spark.fingerprints.buckets import BucketFingerprints, bucket_of
from dedup_spark.fingerprints.hashing import KeyHasher
from dedup_spark.fingerprints.key_columns import Words
from dedup_spark.fingerprints.value_hashing import ValueHasher

Result = TypeVar("Result")
# Values of picked rows, held so that those of them that survive need not be read again.
_HELD_OTHERS_BYTES = 64 << 20


class Budget:
    """Bytes that the sides of one date may hold between passes. Shared by the threads of a date."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._lock = Lock()

    def take(self, size: int) -> bool:
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True


@dataclass(frozen=True)
class Hashing:
    """How rows are hashed: their keys, and their values where these are compared too."""

    keys: KeyHasher
    values: ValueHasher | None


@dataclass(frozen=True)
class _Hashed:
    """A batch with its rows' first hashes; `contents` are hashes of their values, where they were made already."""

    batch: KeyBatch
    first: Words
    contents: Words | None


# File number, row numbers, rows.
_Place = tuple[int, Rows, _Hashed]


class Side:
    """`ids` gives for each file the update_id of all its rows, None where it has to be read."""

    def __init__(
        self,
        reader: KeyReader,
        hashing: Hashing,
        files: Sequence[str],
        ids: Sequence[int | None],
        budget: Budget,
        threads: int,
    ) -> None:
        self._reader = reader
        self._hashing = hashing
        self._files = files
        self._budget = budget
        self._constant_ids = ids
        self._threads = threads
        self._held: dict[int, list[_Hashed]] = {}

    def fingerprints(
        self, bits: int, *, files: Sequence[int] | None = None, only_id: int | None = None
    ) -> BucketFingerprints:
        """Of all rows; of those in `files`; of those with update_id `only_id`."""

        total, lock = BucketFingerprints.empty(bits, with_contents=self._hashing.values is not None), Lock()

        def add_up(numbers: Sequence[int]) -> None:
            for number in numbers:
                for hashed, second in self._hashed(number):
                    first, contents = hashed.first, hashed.contents
                    if only_id is not None and hashed.batch.ids is not None:
                        passed = hashed.batch.ids == only_id
                        first, second = first[passed], second[passed]
                        contents = None if contents is None else contents[passed]
                    with lock:
                        total.add(first, second, contents)

        self._by_thread(add_up, files)
        return total

    @property
    def value_columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._reader.table.value_columns)

    def rows_of(self, number: int, rows: Numbers) -> Iterator[pa.Table]:
        """Whole rows of one file, by their numbers, which ascend."""
        return read_rows(self._reader, RowSource(self._files[number], len(rows), rows, row_numbers([]), None))

    def both_hashes(self, rows: Picked) -> tuple[Words, Words]:
        """Both hashes of the keys of picked rows."""
        return self._hashing.keys.both([column.combine_chunks() for column in rows.values])

    def first_hashes(self, choose: Choose) -> Words:
        """The first hashes of the rows that `choose` picks by them."""

        def gather(numbers: Sequence[int]) -> list[Words]:
            replayed = (hashed for number in numbers for hashed in self._replayed(number, with_others=False))
            return [hashed.first[choose(hashed.first).picked] for hashed in replayed]

        return np.concatenate([NO_WORDS, *(words for part in self._by_thread(gather) for words in part)])

    def pick(self, choose: Choose, *, with_others: bool = False) -> Picked:
        """Keys, places and hashes of the values of the rows that `choose` picks.

        `with_others` asks for the values themselves, where the file is read; so does whoever compares values.
        """
        return self.pick_and_count(choose, with_others=with_others)[0]

    def pick_and_count(
        self, choose: Choose, only_id: int | None = None, *, with_others: bool = False
    ) -> tuple[Picked, list[CountedHashes]]:
        """The rows that `choose` picks, and of those that it counts the hashes, where values are compared.

        Of the latter only those whose update_id is `only_id`, if that is given.
        """
        with_hashes = self._hashing.values is not None
        room = Budget(_HELD_OTHERS_BYTES)

        def gather(numbers: Sequence[int]) -> tuple[list[_Place], CountedHashes]:
            found, counted = [], CountedHashes()
            for number in numbers:
                for hashed in self._replayed(number, with_others=with_others or with_hashes):
                    rows, others = choose(hashed.first)
                    if len(rows):
                        found.append((number, rows + hashed.batch.start, self._taken(hashed, rows, room)))
                    if with_hashes and len(others):
                        others = self._with_id(number, hashed.batch, others, only_id)
                        counted.add(hashed.first[others], self._contents(hashed, others))
            return found, counted

        parts = self._by_thread(gather)
        found = [item for part, _ in parts for item in part]
        picked = Picked(
            values=in_one_piece(
                pa.chunked_array([taken.batch.values[place] for _, _, taken in found], SCALARS[column.type].in_arrow)
                for place, column in enumerate(self._hashing.keys.columns)
            ),
            files=np.concatenate([_NO_FILES, *(np.full(len(rows), number, np.int32) for number, rows, _ in found)]),
            rows=np.concatenate([_NO_NUMBERS, *(rows.astype(np.int64) for _, rows, _ in found)]),
            ids=np.concatenate([_NO_NUMBERS, *(self._ids(number, taken.batch) for number, _, taken in found)]),
            firsts=np.concatenate([NO_WORDS, *(taken.first for _, _, taken in found)]),
            contents=np.concatenate([NO_WORDS, *(t.contents for _, _, t in found if t.contents is not None)]),
            others=joined([taken.batch.others for _, _, taken in found]),
        )
        return picked, [counted for _, counted in parts]

    def _taken(self, hashed: _Hashed, rows: Rows, room: Budget) -> _Hashed:
        """The chosen rows; values are hashed of these alone where no earlier pass did."""
        places, batch, contents = pa.array(rows), hashed.batch, hashed.contents
        first = hashed.first[rows]
        others = None if batch.others is None else tuple(array.take(places) for array in batch.others)
        if contents is not None:
            contents = contents[rows]
        elif self._hashing.values is not None and others is not None:
            contents = self._hashing.values.hash(first, others)
        values = tuple(array.take(places) for array in batch.values)
        ids = None if batch.ids is None else batch.ids[rows]
        if others is not None and not room.take(sum(array.nbytes for array in others)):
            others = None
        return _Hashed(KeyBatch(batch.start, values, ids, others), first, contents)

    def _contents(self, hashed: _Hashed, rows: Rows) -> Words:
        """Hashes of the values of these rows, where values are compared."""
        if hashed.contents is not None:
            return hashed.contents[rows]
        assert self._hashing.values
        assert hashed.batch.others is not None
        places = pa.array(rows)
        return self._hashing.values.hash(hashed.first[rows], [array.take(places) for array in hashed.batch.others])

    def _with_id(self, number: int, batch: KeyBatch, rows: Rows, only_id: int | None) -> Rows:
        """Those of the rows that have this id, if one is given."""
        if only_id is None:
            return rows
        if batch.ids is None:
            return rows if self._constant_ids[number] == only_id else NO_ROWS
        return np.asarray(rows[batch.ids[rows] == only_id])

    def _ids(self, number: int, batch: KeyBatch) -> Numbers:
        return np.full(batch.rows, self._constant_ids[number], np.int64) if batch.ids is None else batch.ids

    def _by_thread(self, work: Callable[[Sequence[int]], Result], files: Sequence[int] | None = None) -> list[Result]:
        numbers = range(len(self._files)) if files is None else files
        threads = max(1, min(self._threads, len(numbers)))
        shares = dealt(numbers, threads)
        if threads == 1:
            return [work(shares[0])]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, shares))

    def _hashed(self, number: int) -> Iterator[tuple[_Hashed, Words]]:
        """All hashes; the file's keys are held for the next pass while the budget lasts."""
        held: list[_Hashed] | None = []
        values = self._hashing.values
        for batch in self._read(number, with_others=values is not None):
            first, second = self._hashing.keys.both(batch.values)
            contents = values.hash(first, batch.others) if values and batch.others is not None else None
            hashed = _Hashed(replace(batch, others=None), first, contents)
            if held is not None and self._budget.take(batch.nbytes + 2 * first.nbytes):
                held.append(hashed)
            else:
                held = None
            yield hashed, second
        if held is not None:
            self._held[number] = held

    def _replayed(self, number: int, *, with_others: bool) -> Iterator[_Hashed]:
        if number in self._held:
            yield from self._held[number]
        else:
            for batch in self._read(number, with_others=with_others):
                yield _Hashed(batch, self._hashing.keys.first(batch.values), None)

    def _read(self, number: int, *, with_others: bool) -> Iterator[KeyBatch]:
        with_ids = self._constant_ids[number] is None
        return self._reader.batches(self._files[number], with_ids=with_ids, with_others=with_others)


def in_buckets(is_open: npt.NDArray[np.bool_], bits: int) -> Choose:
    """Chooses rows whose bucket is open."""
    return lambda first: picked_only(is_open[bucket_of(first, bits)])


_NO_FILES: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
_NO_NUMBERS: Numbers = np.zeros(0, dtype=np.int64)
