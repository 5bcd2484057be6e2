"""Seeded 64-bit hashes of keys, two of them independent of each other, computed column by column in vectors.

The first is a chain: each word of a key goes through a bijective mix (xor, odd multiplication, xor with the high half),
so that no column's differences cancel another's by plain arithmetic. The second is the sum of the words, each times an
odd number of its own: where words differ by multiples of a high power of two it tells fewer keys apart, but it needs
to do so only for keys whose first hashes are equal. A finalizer lets every input bit flip every output bit with
probability one half, so that sums of hashes say nothing that the words' own sums say. Values are hashed as declared,
never as they are packed for a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.fingerprints.key_columns import WORD_BYTES, Words, fixed_words, is_text

# To be changed with anything in this module, or with the choice of buckets: stored fingerprints then count as absent.
SEED = 0x5DEECE66D1CE4E5D

# So many rows are hashed at a time at most: a handful of arrays of them stays in a core's own cache.
_BLOCK_ROWS = 22_000
_HALF = np.uint64(32)
# Longer texts enter by a digest: a key of megabytes then costs one call instead of a vector step a word.
_LONG_TEXT_BYTES = 1024
_FINAL = ((np.uint64(0xBF58476D1CE4E5B9), np.uint64(27)), (np.uint64(0x94D049BB133111EB), np.uint64(31)))
_MARK = np.uint64(0xD6E8FEB86659FD93)
_FIRST, _SECOND = 1, 2

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class KeyHasher:
    """Hashes rows of the given key columns; equal keys have equal hashes in every file and every run."""

    columns: tuple[Column, ...]
    seed: int = SEED

    def first(self, values: Sequence[pa.Array]) -> Words:
        """The hash that chooses a bucket. `values` are the declared columns (see `as_declared`)."""
        first = np.empty(len(values[0]), dtype=np.uint64)
        for rows in blocks(len(first)):
            self._mix((HashChain(first[rows], self.seed, _FIRST),), values, rows)
        return first

    def both(self, values: Sequence[pa.Array]) -> tuple[Words, Words]:
        first, second = np.empty((2, len(values[0])), dtype=np.uint64)
        for rows in blocks(len(first)):
            chain, weighted = HashChain(first[rows], self.seed, _FIRST), WeightedSum(second[rows], self.seed, _SECOND)
            self._mix((chain, weighted), values, rows)
        return first, second

    def _mix(self, mixers: Sequence[Mixer], values: Sequence[pa.Array], rows: slice) -> None:
        for column, array in zip(self.columns, values, strict=True):
            part = array[rows]
            if is_text(column):
                mix_texts(mixers, part)
            else:
                for words in fixed_words(column, part):
                    for mixer in mixers:
                        mixer.mix(words)
        for mixer in mixers:
            mixer.finish()


def blocks(rows: int) -> Iterator[slice]:
    """Ranges of rows to hash one after the other, of like length."""
    step = -(-rows // (rows // _BLOCK_ROWS + 1)) or 1
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class Mixer(Protocol):
    """One hash of many rows, while words are mixed in."""

    def mix(self, words: Words) -> None:
        """The next word of every row."""

    def mix_some(self, rows: Rows, words: Words, place: int) -> None:
        """Of some rows a further word, the one at `place` of what the last word of all rows began."""

    def finish(self) -> None: ...


class HashChain:
    """Hashes into `state`. `number` tells the independent hashes of a seed apart.

    Where `begun`, the state is hashes already, whose chains go on.
    """

    def __init__(self, state: Words, seed: int, number: int, *, begun: bool = False) -> None:
        start, factor = _drawn(seed, number, 0, 0)
        self._start: np.uint64 | None = None if begun else np.uint64(start)  # of all rows, until the first words come
        self._state = state
        self._spare = np.empty_like(state)
        self._factor = np.uint64(factor)

    def mix(self, words: Words) -> None:
        state, spare = self._state, self._spare
        np.bitwise_xor(state if self._start is None else self._start, words, out=state)
        self._start = None
        np.multiply(state, self._factor, out=state)
        np.right_shift(state, _HALF, out=spare)
        np.bitwise_xor(state, spare, out=state)

    def mix_some(self, rows: Rows, words: Words, place: int) -> None:
        some = self._state[rows] ^ words
        some *= self._factor
        some ^= some >> _HALF
        self._state[rows] = some

    def mark(self, rows: Rows) -> None:
        """Tells these rows from all others, whatever their last word was."""
        self._state[rows] *= _MARK

    def finish(self) -> None:
        _finish(self._state, self._spare)


class WeightedSum:
    """Hashes into `state` like a chain."""

    def __init__(self, state: Words, seed: int, number: int) -> None:
        self._state = state
        self._spare = np.empty_like(state)
        self._seed, self._number, self._column = seed, number, 0

    def mix(self, words: Words) -> None:
        self._column += 1
        start, factor = _drawn(self._seed, self._number, self._column, 0)
        if self._column == 1:
            np.multiply(words, np.uint64(factor), out=self._state)
            np.add(self._state, np.uint64(start), out=self._state)
        else:
            np.multiply(words, np.uint64(factor), out=self._spare)
            np.add(self._state, self._spare, out=self._state)

    def mix_some(self, rows: Rows, words: Words, place: int) -> None:
        _, factor = _drawn(self._seed, self._number, self._column, place + 1)
        self._state[rows] += words * np.uint64(factor)

    def finish(self) -> None:
        np.right_shift(self._state, _HALF, out=self._spare)
        np.bitwise_xor(self._state, self._spare, out=self._state)
        _finish(self._state, self._spare)


def _finish(state: Words, spare: Words) -> None:
    """Two rounds, after one that ended with the high half in the low."""
    for factor, shift in _FINAL:
        np.multiply(state, factor, out=state)
        np.right_shift(state, shift, out=spare)
        np.bitwise_xor(state, spare, out=state)


@lru_cache(4096)
def _drawn(seed: int, number: int, column: int, place: int) -> tuple[int, int]:
    """Any number, and an odd factor."""
    drawn = blake2b(f"{seed}/{number}/{column}/{place}".encode(), digest_size=16).digest()
    return int.from_bytes(drawn[:8], "big"), int.from_bytes(drawn[8:], "big") | 1


def mix_texts(mixers: Sequence[Mixer], array: pa.Array) -> None:
    """Length first, so that neighbouring columns cannot lend each other bytes; then eight bytes at a time."""
    _, offset_buffer, data_buffer = array.buffers()
    every = np.frombuffer(offset_buffer, dtype=np.int32)
    offsets = every[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    for mixer in mixers:
        mixer.mix(lengths.view(np.uint64))
    if not len(array) or not lengths.any():
        return
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + WORD_BYTES, dtype=np.uint8)
    data[: end - begin] = np.frombuffer(data_buffer, dtype=np.uint8)[begin:end]
    starts = offsets[:-1] - begin
    long = lengths > _LONG_TEXT_BYTES
    _mix_digests(mixers, data, np.flatnonzero(long), starts, lengths)
    _mix_words(mixers, data, np.flatnonzero((lengths > 0) & ~long), starts, lengths)


def _mix_words(
    mixers: Sequence[Mixer],
    data: npt.NDArray[np.uint8],
    rows: Rows,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    # Eight bytes from any start as one number: the view overlaps itself, nothing is copied.
    anywhere: npt.NDArray[np.uint64] = np.ndarray((len(data) - WORD_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
    place = 0
    while len(rows):
        done = place * WORD_BYTES
        words = anywhere[starts[rows] + done].astype(np.uint64, copy=False)
        left = lengths[rows] - done
        unused = np.maximum(WORD_BYTES - left, 0).astype(np.uint64) * np.uint64(8)
        words = (words << unused) >> unused
        for mixer in mixers:
            mixer.mix_some(rows, words, place)
        rows = rows[left > WORD_BYTES]
        place += 1


def _mix_digests(
    mixers: Sequence[Mixer],
    data: npt.NDArray[np.uint8],
    rows: Rows,
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    if not len(rows):
        return
    digests = b"".join(
        blake2b(data[start : start + length].tobytes(), digest_size=16).digest()
        for start, length in zip(starts[rows].tolist(), lengths[rows].tolist(), strict=True)
    )
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    for mixer in mixers:
        for place in (0, 1):
            mixer.mix_some(rows, words[:, place].astype(np.uint64), place)
