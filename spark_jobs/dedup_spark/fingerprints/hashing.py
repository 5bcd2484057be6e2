"""Two independent 64-bit hashes of keys, computed column by column with numpy.

A key's columns are a sequence of 64-bit words. The first hash chains the words: each goes through a bijective step
(xor, multiplication by an odd number, xor with the high half), so differences in one column cannot cancel those in
another. The second hash is the sum of the words, each times an odd number of its own. It is faster and weaker: keys
whose words differ by multiples of a high power of two collide more often. That is enough, since it only has to tell
apart keys whose first hashes are equal. Both end in a finalizer, after which each input bit flips each output bit with
probability 1/2; so equal sums of words do not make sums of hashes equal. Columns are hashed as declared, never as
packed keys.
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
from dedup_spark.arrays import I64Array, Indices, U64Array
from dedup_spark.fingerprints.key_columns import WORD_BYTES, fixed_words, is_text

# Change it with any hash in this package, or with the choice of buckets: stored fingerprints then count as absent.
SEED = 0x5DEECE66D1CE4E5D

# Rows are hashed in blocks, so that the few arrays of a block stay in a core's own cache.
_BLOCK_ROWS = 22_000
_HALF = np.uint64(32)
# A longer text is hashed by its digest: one call for a key of megabytes instead of a numpy step for each word.
_LONG_TEXT_BYTES = 1024
_FINAL_ROUNDS = ((np.uint64(0xBF58476D1CE4E5B9), np.uint64(27)), (np.uint64(0x94D049BB133111EB), np.uint64(31)))
_NULL_FACTOR = np.uint64(0xD6E8FEB86659FD93)
_FIRST, _SECOND = 1, 2


@dataclass(frozen=True)
class KeyHasher:
    """Hashes rows by the given key columns. Equal keys have equal hashes in every file and every run."""

    columns: tuple[Column, ...]
    seed: int = SEED

    def first(self, values: Sequence[pa.Array]) -> U64Array:
        """The first hash of each row, which chooses its bucket. `values` are the columns, of the declared types."""
        first = np.empty(len(values[0]), dtype=np.uint64)
        for rows in blocks(len(first)):
            self._mix((ChainedHash(first[rows], self.seed, _FIRST),), values, rows)
        return first

    def both(self, values: Sequence[pa.Array]) -> tuple[U64Array, U64Array]:
        """The first and the second hash of each row."""
        first, second = np.empty((2, len(values[0])), dtype=np.uint64)
        for rows in blocks(len(first)):
            chain, weighted = ChainedHash(first[rows], self.seed, _FIRST), WeightedSum(second[rows], self.seed, _SECOND)
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
    """Consecutive blocks of rows, of about equal length."""
    step = -(-rows // (rows // _BLOCK_ROWS + 1)) or 1
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class Mixer(Protocol):
    """Computes one hash of each of many rows, while their words are mixed in one after the other."""

    def mix(self, words: U64Array) -> None:
        """Mixes in the next word of every row."""

    def mix_some(self, rows: Indices, words: U64Array, number: int) -> None:
        """Mixes in a word of some rows only. `number` counts such words from 0 since the last call of `mix`."""

    def finish(self) -> None:
        """Turns the mixed words into the hashes."""


class ChainedHash:
    """Computes chained hashes in the array `state`. `number` distinguishes independent hashes of one seed.

    With `continues` the state holds hashes already, and the chains continue from them.
    """

    def __init__(self, state: U64Array, seed: int, number: int, *, continues: bool = False) -> None:
        start, factor = _constants(seed, number, 0, 0)
        # The state of all rows until the first words are mixed in.
        self._start: np.uint64 | None = None if continues else np.uint64(start)
        self._state = state
        self._scratch = np.empty_like(state)
        self._factor = np.uint64(factor)

    def mix(self, words: U64Array) -> None:
        state, scratch = self._state, self._scratch
        np.bitwise_xor(state if self._start is None else self._start, words, out=state)
        self._start = None
        np.multiply(state, self._factor, out=state)
        np.right_shift(state, _HALF, out=scratch)
        np.bitwise_xor(state, scratch, out=state)

    def mix_some(self, rows: Indices, words: U64Array, number: int) -> None:
        some = self._state[rows] ^ words
        some *= self._factor
        some ^= some >> _HALF
        self._state[rows] = some

    def mark_null(self, rows: Indices) -> None:
        """Makes the hashes of rows with NULL differ from those of rows that have the value NULL was replaced by."""
        self._state[rows] *= _NULL_FACTOR

    def finish(self) -> None:
        _finish(self._state, self._scratch)


class WeightedSum:
    """Computes weighted sums of words in the array `state`. Arguments are those of `ChainedHash`."""

    def __init__(self, state: U64Array, seed: int, number: int) -> None:
        self._state = state
        self._scratch = np.empty_like(state)
        self._seed, self._number, self._words = seed, number, 0

    def mix(self, words: U64Array) -> None:
        self._words += 1
        start, factor = _constants(self._seed, self._number, self._words, 0)
        if self._words == 1:
            np.multiply(words, np.uint64(factor), out=self._state)
            np.add(self._state, np.uint64(start), out=self._state)
        else:
            np.multiply(words, np.uint64(factor), out=self._scratch)
            np.add(self._state, self._scratch, out=self._state)

    def mix_some(self, rows: Indices, words: U64Array, number: int) -> None:
        _, factor = _constants(self._seed, self._number, self._words, number + 1)
        self._state[rows] += words * np.uint64(factor)

    def finish(self) -> None:
        np.right_shift(self._state, _HALF, out=self._scratch)
        np.bitwise_xor(self._state, self._scratch, out=self._state)
        _finish(self._state, self._scratch)


def _finish(state: U64Array, scratch: U64Array) -> None:
    """Finalizes a state whose high half was just mixed into its low half."""
    for factor, shift in _FINAL_ROUNDS:
        np.multiply(state, factor, out=state)
        np.right_shift(state, shift, out=scratch)
        np.bitwise_xor(state, scratch, out=state)


@lru_cache(4096)
def _constants(seed: int, number: int, word: int, part: int) -> tuple[int, int]:
    """A pseudorandom number, and an odd one to multiply by."""
    drawn = blake2b(f"{seed}/{number}/{word}/{part}".encode(), digest_size=16).digest()
    return int.from_bytes(drawn[:8], "big"), int.from_bytes(drawn[8:], "big") | 1


def mix_texts(mixers: Sequence[Mixer], array: pa.Array) -> None:
    """Mixes in the lengths first, so that no bytes can move to a neighbouring column, then eight bytes at a time."""
    _, offset_buffer, data_buffer = array.buffers()
    all_offsets = np.frombuffer(offset_buffer, dtype=np.int32)
    offsets = all_offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    for mixer in mixers:
        mixer.mix(lengths.view(np.uint64))
    if not len(array) or not lengths.any():
        return
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + WORD_BYTES, dtype=np.uint8)
    data[: end - begin] = np.frombuffer(data_buffer, dtype=np.uint8)[begin:end]
    starts = offsets[:-1] - begin
    is_long = lengths > _LONG_TEXT_BYTES
    _mix_digests(mixers, data, np.flatnonzero(is_long), starts, lengths)
    _mix_words(mixers, data, np.flatnonzero((lengths > 0) & ~is_long), starts, lengths)


def _mix_words(
    mixers: Sequence[Mixer], data: npt.NDArray[np.uint8], rows: Indices, starts: I64Array, lengths: I64Array
) -> None:
    """Mixes in the texts of these rows, eight bytes at a time; the last word is filled up with zeros."""
    # The word that begins at any byte of the data: an overlapping view, nothing is copied.
    word_at: U64Array = np.ndarray((len(data) - WORD_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
    number = 0
    while len(rows):
        done = number * WORD_BYTES
        words = word_at[starts[rows] + done].astype(np.uint64, copy=False)
        left = lengths[rows] - done
        unused_bits = np.maximum(WORD_BYTES - left, 0).astype(np.uint64) * np.uint64(8)
        words = (words << unused_bits) >> unused_bits
        for mixer in mixers:
            mixer.mix_some(rows, words, number)
        rows = rows[left > WORD_BYTES]
        number += 1


def _mix_digests(
    mixers: Sequence[Mixer], data: npt.NDArray[np.uint8], rows: Indices, starts: I64Array, lengths: I64Array
) -> None:
    """Mixes in 128-bit digests of the texts of these rows."""
    if not len(rows):
        return
    digests = b"".join(
        blake2b(data[start : start + length].tobytes(), digest_size=16).digest()
        for start, length in zip(starts[rows].tolist(), lengths[rows].tolist(), strict=True)
    )
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    for mixer in mixers:
        for number in (0, 1):
            mixer.mix_some(rows, words[:, number].astype(np.uint64), number)
