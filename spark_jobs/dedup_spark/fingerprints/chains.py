"""Computes 64-bit hashes of rows, word by word, with numpy. The constants are drawn from the feed's secret seed.

A hash is a chain: one step for each word mixes the word into a 64-bit state. Different words give different states. A
finalizer ends it, so that sums of hashes are not equal just because sums of words are.

- A step of the strong chain multiplies, reverses the bytes, and multiplies again. A product's low bits do not depend on
  a factor's high bits, so one multiplication cannot spread a change of the highest bits. The byte reversal makes these
  the lowest bits, and the second multiplication spreads them over bits that only the seed determines. So nobody without
  the seed can choose words whose changes cancel.
- A step of the quick chain has one multiplication. Changes can be made to cancel in this chain, but not in both chains
  at once.

docs/adr/0005-adopt.md says what this guarantees, and against whom.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

import numpy as np

from dedup_spark.arrays import Indices, U64Array
from dedup_spark.fingerprints.seed import Seed

# Rows are hashed in blocks, so that the few arrays of a block stay in a core's own cache.
_BLOCK_ROWS = 22_000
_HALF_WORD_BITS = np.uint64(32)
# Factor and shift of each round of the finalizer, from SplitMix64.
_FINAL_ROUNDS = ((np.uint64(0xBF58476D1CE4E5B9), np.uint64(27)), (np.uint64(0x94D049BB133111EB), np.uint64(31)))
# An arbitrary odd number, by which `mark_null` multiplies.
_NULL_FACTOR = np.uint64(0xD6E8FEB86659FD93)


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
        # The state of all rows until the first words are mixed in; then None.
        self._start: np.uint64 | None
        self._start, self._factor, self._second_factor = draw_constants(seed, name)
        self._state = state
        self._scratch = np.empty_like(state)

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
        if continues:
            self._start = None

    def _step(self, state: U64Array, scratch: U64Array) -> None:
        mix_strongly(state, scratch, self._factor, self._second_factor)

    def mark_null(self, rows: Indices) -> None:
        """Change the state of these rows, whose NULL was mixed in as a fixed value, to tell NULL from this value."""
        self._state[rows] *= _NULL_FACTOR


def mix_strongly(state: U64Array, scratch: U64Array, factor: np.uint64, second_factor: np.uint64) -> None:
    """Spread any change of a number over all its bits, in place. `scratch`: of the same length, is overwritten."""
    np.multiply(state, factor, out=state)
    state.byteswap(inplace=True)
    np.multiply(state, second_factor, out=state)
    np.right_shift(state, _HALF_WORD_BITS, out=scratch)
    np.bitwise_xor(state, scratch, out=state)


@lru_cache
def draw_constants(seed: Seed, name: str) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return three numbers that the seed gives this name: any number, and two odd factors."""
    drawn = blake2b(name.encode(), key=seed.secret, digest_size=24).digest()
    start, factor, second_factor = (int.from_bytes(drawn[begin : begin + 8], "big") for begin in (0, 8, 16))
    return np.uint64(start), np.uint64(factor | 1), np.uint64(second_factor | 1)
