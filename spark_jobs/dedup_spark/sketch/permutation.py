"""Permutes the words of rows by the feed's secret seed, so that any change of a row changes all its words at random.

The permutation is a Feistel network: in each round a keyed mix of one word is added to the next word. Rounds can be
undone, so the permuted words give the row back.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from dedup_spark.arrays import U64Array
from dedup_spark.fingerprints.seed import Seed

_HALF_WORD_BITS = np.uint64(32)
# After the first turn around all words the first one depends on every word, after the second each of them does.
_TURNS = 2
_KEYS_PER_ROUND = 3


class Permutation:
    """Permutes rows of `word_count` words, at least two. Equal seeds permute equally."""

    def __init__(self, seed: Seed, word_count: int) -> None:
        self._keys = [_round_keys(seed, word_count, number) for number in range(_TURNS * word_count)]
        self._word_count = word_count

    def apply(self, words: U64Array) -> None:
        """Permute rows in place. `words`: has one line for each word, with a number for each row."""
        self._run(words, enumerate(self._keys), np.add)

    def undo(self, words: U64Array) -> None:
        """Turn permuted rows back, in place."""
        self._run(words, reversed(list(enumerate(self._keys))), np.subtract)

    def _run(self, words: U64Array, rounds: Iterable[tuple[int, tuple[np.uint64, ...]]], change: np.ufunc) -> None:
        mixed, scratch = np.empty((2, words.shape[1]), dtype=np.uint64)
        for number, keys in rounds:
            _mix(words[number % self._word_count], keys, mixed, scratch)
            changed = words[(number + 1) % self._word_count]
            change(changed, mixed, out=changed)


def _mix(word: U64Array, keys: tuple[np.uint64, ...], mixed: U64Array, scratch: U64Array) -> None:
    """Set `mixed`. As in the strong chain of chains.py, the byte reversal spreads changes of the highest bits, too."""
    offset, factor, second_factor = keys
    np.bitwise_xor(word, offset, out=mixed)
    np.multiply(mixed, factor, out=mixed)
    mixed.byteswap(inplace=True)
    np.multiply(mixed, second_factor, out=mixed)
    np.right_shift(mixed, _HALF_WORD_BITS, out=scratch)
    np.bitwise_xor(mixed, scratch, out=mixed)


def _round_keys(seed: Seed, word_count: int, number: int) -> tuple[np.uint64, ...]:
    """The keys of one round: a number to xor with, and two odd factors."""
    name = f"permutation of {word_count} words, round {number}".encode()
    drawn = np.frombuffer(blake2b(name, key=seed.secret, digest_size=8 * _KEYS_PER_ROUND).digest(), "<u8")
    offset, factor, second_factor = (int(key) for key in drawn)
    return np.uint64(offset), np.uint64(factor | 1), np.uint64(second_factor | 1)
