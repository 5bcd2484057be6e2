"""Permutes the words of rows by the feed's secret seed, so that any change of a row changes all its words at random.

The permutation is a Feistel network: in each round a keyed mix of one word is added to the next word. Rounds can be
undone, so the permuted words give the row back.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dedup_spark.arrays import U64Array
from dedup_spark.fingerprints.chains import draw_constants, mix_strongly
from dedup_spark.fingerprints.seed import Seed

# After the first turn around all words the first one depends on every word, after the second each of them does.
_TURNS = 2
# The keys of a round: a number to xor with, and two odd factors.
_Keys = tuple[np.uint64, np.uint64, np.uint64]


class Permutation:
    """Permutes rows of `word_count` words, at least two. Equal seeds permute equally."""

    def __init__(self, seed: Seed, word_count: int) -> None:
        names = (f"permutation of {word_count} words, round {number}" for number in range(_TURNS * word_count))
        self._keys = [draw_constants(seed, name) for name in names]
        self._word_count = word_count

    def apply(self, words: U64Array) -> None:
        """Permute rows in place. `words`: has one line for each word, with a number for each row."""
        self._run(words, enumerate(self._keys), np.add)

    def undo(self, words: U64Array) -> None:
        """Turn permuted rows back, in place."""
        self._run(words, reversed(list(enumerate(self._keys))), np.subtract)

    def _run(self, words: U64Array, rounds: Iterable[tuple[int, _Keys]], change: np.ufunc) -> None:
        mixed, scratch = np.empty((2, words.shape[1]), dtype=np.uint64)
        for number, (offset, factor, second_factor) in rounds:
            np.bitwise_xor(words[number % self._word_count], offset, out=mixed)
            mix_strongly(mixed, scratch, factor, second_factor)
            changed = words[(number + 1) % self._word_count]
            change(changed, mixed, out=changed)
