"""Computes two independent 64-bit hashes of keys, column by column, with numpy.

A key's columns are a sequence of 64-bit words. Each hash is a chain: one step for each word mixes the word into a
64-bit state. Different words give different states, so keys of one word never collide. The steps of the two chains
differ, and their constants are drawn from the feed's secret seed.

- A step of the first chain multiplies, reverses the bytes, and multiplies again. A product's low bits do not depend on
  a factor's high bits, so one multiplication cannot spread a change of the highest bits. The byte reversal makes these
  the lowest bits, and the second multiplication spreads them over bits that only the seed determines. So nobody without
  the seed can choose words whose changes cancel.
- A step of the second chain is quicker, with one multiplication. Changes can be made to cancel in this chain, but not
  in both chains at once.

Both hashes end in a finalizer, so that sums of hashes are not equal just because sums of words are. Columns are hashed
with their declared types, so hashes can be stored, unlike the keys that `comparison/keys.py` packs.
docs/adr/0005-adopt.md says what this guarantees, and against whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_clone.contract.table import Column
from dedup_spark.arrays import I64Array, Indices, U64Array
from dedup_spark.fingerprints.key_columns import WORD_BYTES, fixed_words, is_text
from dedup_spark.fingerprints.seed import Seed

# Increase it when a hash function of this folder changes: erased keys are recorded as hashes.
VERSION = 3
# Rows are hashed in blocks, so that the few arrays of a block stay in a core's own cache.
_BLOCK_ROWS = 22_000
_HALF_WORD_BITS = np.uint64(32)
# A longer text is replaced by its digest, because mixing takes a call of numpy for each word of the longest text.
_LONG_TEXT_BYTES = 1024
# Factor and shift of each round of the finalizer, from SplitMix64.
_FINAL_ROUNDS = ((np.uint64(0xBF58476D1CE4E5B9), np.uint64(27)), (np.uint64(0x94D049BB133111EB), np.uint64(31)))
# An arbitrary odd number, by which `mark_null` multiplies.
_NULL_FACTOR = np.uint64(0xD6E8FEB86659FD93)


@dataclass(frozen=True)
class KeyHasher:
    """Hashes rows by the given key columns. With one seed, equal keys have equal hashes in every file and every job."""

    columns: tuple[Column, ...]
    seed: Seed

    def first(self, values: Sequence[pa.Array]) -> U64Array:
        """The first hash of each row. `values`: the key columns, of the declared types."""
        first = np.empty(len(values[0]), dtype=np.uint64)
        for rows in blocks(len(first)):
            self._mix((StrongChain(first[rows], self.seed, "first"),), values, rows)
        return first

    def both(self, values: Sequence[pa.Array]) -> tuple[U64Array, U64Array]:
        """The first and the second hash of each row."""
        first, second = np.empty((2, len(values[0])), dtype=np.uint64)
        for rows in blocks(len(first)):
            chains = StrongChain(first[rows], self.seed, "first"), QuickChain(second[rows], self.seed, "second")
            self._mix(chains, values, rows)
        return first, second

    def _mix(self, chains: Sequence[QuickChain], values: Sequence[pa.Array], rows: slice) -> None:
        for column, array in zip(self.columns, values, strict=True):
            block = array[rows]
            if is_text(column):
                mix_texts(chains, block)
            else:
                for words in fixed_words(column, block):
                    for chain in chains:
                        chain.mix(words)
        for chain in chains:
            chain.finish()


def blocks(rows: int) -> Iterator[slice]:
    """Consecutive blocks of rows, of about equal length."""
    step = -(-rows // (rows // _BLOCK_ROWS + 1)) or 1
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


class QuickChain:
    """Computes one hash for each row, in place in the array `state`, with one multiplication for each word.

    `name`: chooses the constants, so chains of one seed with different names compute different hashes.
    """

    final_rounds: Sequence[tuple[np.uint64, np.uint64]] = _FINAL_ROUNDS

    def __init__(self, state: U64Array, seed: Seed, name: str) -> None:
        start, factor, _ = _constants(seed, name)
        # The state of all rows until the first words are mixed in; then None.
        self._start: np.uint64 | None = np.uint64(start)
        self._state = state
        self._scratch = np.empty_like(state)
        self._factor = np.uint64(factor)

    def mix(self, words: U64Array) -> None:
        """Mix in the next word of every row."""
        np.bitwise_xor(self._state if self._start is None else self._start, words, out=self._state)
        self._start = None
        self._step(self._state, self._scratch)

    def mix_some(self, rows: Indices, words: U64Array) -> None:
        """Mix in the next word of these rows only."""
        some = self._state[rows] ^ words
        self._step(some, self._scratch[: len(rows)])
        self._state[rows] = some

    def _step(self, state: U64Array, scratch: U64Array) -> None:
        np.multiply(state, self._factor, out=state)
        np.right_shift(state, _HALF_WORD_BITS, out=scratch)
        np.bitwise_xor(state, scratch, out=state)

    def finish(self) -> None:
        """Turn the states into the hashes."""
        for factor, shift in self.final_rounds:
            np.multiply(self._state, factor, out=self._state)
            np.right_shift(self._state, shift, out=self._scratch)
            np.bitwise_xor(self._state, self._scratch, out=self._state)


class StrongChain(QuickChain):
    """A QuickChain with another step: two multiplications for each word, with the bytes reversed in between.

    `continues`: `state` contains hashes already, with which the chain starts.
    """

    final_rounds = _FINAL_ROUNDS[:1]  # one round is enough, because each step mixes more

    def __init__(self, state: U64Array, seed: Seed, name: str, *, continues: bool = False) -> None:
        super().__init__(state, seed, name)
        self._second_factor = np.uint64(_constants(seed, name)[2])
        if continues:
            self._start = None

    def _step(self, state: U64Array, scratch: U64Array) -> None:
        np.multiply(state, self._factor, out=state)
        state.byteswap(inplace=True)
        np.multiply(state, self._second_factor, out=state)
        np.right_shift(state, _HALF_WORD_BITS, out=scratch)
        np.bitwise_xor(state, scratch, out=state)

    def mark_null(self, rows: Indices) -> None:
        """Change the state of these rows, whose NULL was mixed in as a fixed value, to tell NULL from this value."""
        self._state[rows] *= _NULL_FACTOR


@lru_cache
def _constants(seed: Seed, name: str) -> tuple[int, int, int]:
    """Return three numbers drawn from the seed for chains of this name: a start state, and two odd factors."""
    drawn = blake2b(name.encode(), key=seed.secret, digest_size=24).digest()
    start, factor, second_factor = (int.from_bytes(drawn[begin : begin + 8], "big") for begin in (0, 8, 16))
    return start, factor | 1, second_factor | 1


def mix_texts(chains: Sequence[QuickChain], array: pa.Array) -> None:
    """Mix in the length of each text, then its bytes, or those of a long text's digest, eight at a time.

    Without the length, bytes could move from the end of one column to the start of the next with the same hash.
    """
    _, offset_buffer, data_buffer = array.buffers()
    all_offsets = np.frombuffer(offset_buffer, dtype=np.int32)
    offsets = all_offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    lengths = np.diff(offsets)
    for chain in chains:
        chain.mix(lengths.view(np.uint64))
    if not len(array) or not lengths.any():
        return
    begin, end = int(offsets[0]), int(offsets[-1])
    data = np.zeros(end - begin + WORD_BYTES, dtype=np.uint8)
    data[: end - begin] = np.frombuffer(data_buffer, dtype=np.uint8)[begin:end]
    starts = offsets[:-1] - begin
    is_long = lengths > _LONG_TEXT_BYTES
    _mix_digests(chains, data, np.flatnonzero(is_long), starts, lengths)
    _mix_words(chains, data, np.flatnonzero((lengths > 0) & ~is_long), starts, lengths)


def _mix_words(
    chains: Sequence[QuickChain], data: npt.NDArray[np.uint8], rows: Indices, starts: I64Array, lengths: I64Array
) -> None:
    """Mix in the texts of these rows, eight bytes at a time; the last word is filled up with zeros.

    `starts`, `lengths`: of the texts of all rows, in bytes of `data`.
    """
    # For each byte of the data, the word that begins with it: a view of overlapping words, without a copy.
    word_at: U64Array = np.ndarray((len(data) - WORD_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
    mixed_bytes = 0
    while len(rows):
        words = word_at[starts[rows] + mixed_bytes].astype(np.uint64, copy=False)
        remaining_bytes = lengths[rows] - mixed_bytes
        unused_bits = np.maximum(WORD_BYTES - remaining_bytes, 0).astype(np.uint64) * np.uint64(8)
        words = (words << unused_bits) >> unused_bits
        for chain in chains:
            chain.mix_some(rows, words)
        rows = rows[remaining_bytes > WORD_BYTES]
        mixed_bytes += WORD_BYTES


def _mix_digests(
    chains: Sequence[QuickChain], data: npt.NDArray[np.uint8], rows: Indices, starts: I64Array, lengths: I64Array
) -> None:
    """Mix in the 128-bit digests of the texts of these rows, each as two words."""
    if not len(rows):
        return
    digests = b"".join(
        blake2b(data[start : start + length].tobytes(), digest_size=16).digest()
        for start, length in zip(starts[rows].tolist(), lengths[rows].tolist(), strict=True)
    )
    words = np.frombuffer(digests, dtype="<u8").reshape(-1, 2)
    for chain in chains:
        for number in (0, 1):
            chain.mix_some(rows, words[:, number].astype(np.uint64))
