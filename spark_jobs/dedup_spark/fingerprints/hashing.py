"""Seeded 64-bit hashes of keys, two of them independent of each other, computed column by column in vectors.

Each word of a key goes through a bijective mix (xor, odd multiplication, xor with the high half), so that no column's
differences cancel another's by plain arithmetic; a last finalizer lets every input bit flip every output bit with
probability one half. Values are hashed as declared, never as they are packed for a join.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.fingerprints.key_columns import Words, fixed_words, is_text

# Changing the seed, or anything in this module, changes every hash: stored fingerprints then count as absent.
SEED = 0x5DEECE66D1CE4E5B

_HALF = np.uint64(32)
_WORD_BYTES = 8
# Longer texts enter by a digest: a key of megabytes then costs one call instead of a vector step a word.
_LONG_TEXT_BYTES = 1024
_FINAL = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_FINAL_SHIFT = np.uint64(31)


@dataclass(frozen=True)
class KeyHasher:
    """Hashes rows of the given key columns; equal keys have equal hashes in every file and every run."""

    columns: tuple[Column, ...]
    seed: int = SEED

    def first(self, values: Sequence[pa.Array]) -> Words:
        """The hash whose top bits choose a bucket. `values` are the declared columns (see `as_declared`)."""
        return self._hash(values, (1,))[0]

    def both(self, values: Sequence[pa.Array]) -> tuple[Words, Words]:
        first, second = self._hash(values, (1, 2))
        return first, second

    def _hash(self, values: Sequence[pa.Array], numbers: Sequence[int]) -> list[Words]:
        chains = [HashChain(len(values[0]), self.seed, number) for number in numbers]
        for column, array in zip(self.columns, values, strict=True):
            if is_text(column):
                mix_texts(chains, array)
            else:
                for words in fixed_words(column, array):
                    for chain in chains:
                        chain.mix(words)
        return [chain.finished() for chain in chains]


class HashChain:
    """One hash of many rows, while words are mixed in. `number` tells the independent hashes of a seed apart."""

    def __init__(self, rows: int, seed: int, number: int) -> None:
        start, factor = _drawn(seed, number)
        self._start: np.uint64 | None = np.uint64(start)  # of all rows, until the first words come
        self._state = np.empty(rows, dtype=np.uint64)
        self._spare = np.empty(rows, dtype=np.uint64)
        self._factor = np.uint64(factor)

    def mix(self, words: Words | np.uint64) -> None:
        """One word stands for all rows' alike."""
        state, spare = self._state, self._spare
        np.bitwise_xor(state if self._start is None else self._start, words, out=state)
        self._start = None
        np.multiply(state, self._factor, out=state)
        np.right_shift(state, _HALF, out=spare)
        np.bitwise_xor(state, spare, out=state)

    def mix_some(self, rows: npt.NDArray[np.intp], words: Words) -> None:
        some = self._begun()[rows] ^ words
        some *= self._factor
        some ^= some >> _HALF
        self._state[rows] = some

    def finished(self) -> Words:
        state, spare = self._begun(), self._spare
        for shift, factor in _FINAL:
            np.right_shift(state, np.uint64(shift), out=spare)
            np.bitwise_xor(state, spare, out=state)
            np.multiply(state, np.uint64(factor), out=state)
        np.right_shift(state, _FINAL_SHIFT, out=spare)
        np.bitwise_xor(state, spare, out=state)
        return state

    def _begun(self) -> Words:
        if self._start is not None:
            self._state.fill(self._start)
            self._start = None
        return self._state


@lru_cache
def _drawn(seed: int, number: int) -> tuple[int, int]:
    """Start and odd factor of a chain."""
    drawn = blake2b(f"{seed}/{number}".encode(), digest_size=16).digest()
    return int.from_bytes(drawn[:8], "big"), int.from_bytes(drawn[8:], "big") | 1


def mix_texts(chains: Sequence[HashChain], array: pa.Array) -> None:
    """Length first, so that neighbouring columns cannot lend each other bytes; then eight bytes at a time."""
    _, offset_buffer, data_buffer = array.buffers()
    every = np.frombuffer(offset_buffer, dtype=np.int32)
    offsets = every[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    for chain in chains:
        chain.mix(lengths.view(np.uint64))
    if not len(array) or not lengths.any():
        return
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + _WORD_BYTES, dtype=np.uint8)
    data[: end - begin] = np.frombuffer(data_buffer, dtype=np.uint8)[begin:end]
    starts = offsets[:-1] - begin
    long = lengths > _LONG_TEXT_BYTES
    _mix_digests(chains, data, np.flatnonzero(long), starts, lengths)
    _mix_words(chains, data, np.flatnonzero((lengths > 0) & ~long), starts, lengths)


def _mix_words(
    chains: Sequence[HashChain],
    data: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.intp],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> None:
    # Eight bytes from any start as one number: the view overlaps itself, nothing is copied.
    anywhere: npt.NDArray[np.uint64] = np.ndarray(
        (len(data) - _WORD_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,)
    )
    done = 0
    while len(rows):
        words = anywhere[starts[rows] + done].astype(np.uint64, copy=False)
        left = lengths[rows] - done
        unused = np.maximum(_WORD_BYTES - left, 0).astype(np.uint64) * np.uint64(8)
        words = (words << unused) >> unused
        for chain in chains:
            chain.mix_some(rows, words)
        rows = rows[left > _WORD_BYTES]
        done += _WORD_BYTES


def _mix_digests(
    chains: Sequence[HashChain],
    data: npt.NDArray[np.uint8],
    rows: npt.NDArray[np.intp],
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
    for chain in chains:
        for part in (0, 1):
            chain.mix_some(rows, words[:, part].astype(np.uint64))
