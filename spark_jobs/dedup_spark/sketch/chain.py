"""Finds how the rows of a date changed from one set to the next: the links of a chain, such as parent and deliveries.

A step of the chain is the difference of two neighbouring sketches. Of a key that differs in some step, the steps tell
the row of every link: the row stays the same from one link to the next unless a step says otherwise. All other keys
have the same row in all links.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from dedup_spark.arrays import ABSENT, Indices, U64Array
from dedup_spark.sketch.row_words import RowEncoder
from dedup_spark.sketch.sketch import Difference, Remainder, Sketch, group_equal


@dataclass(frozen=True)
class StuckStep:
    """A step whose rows cannot be told apart: that from link `number` to the next."""

    number: int
    remainder: Remainder


@dataclass(frozen=True)
class KeyVersions:
    """The rows of the keys that differ in some step.

    `words`: rows. `rows`: by link and key, the index of the link's row in `words`, or -1 if the link lacks the key.
    `codes`: the codes of the keys (`RowEncoder.key_codes`). `suspects`: for each link, the codes of those keys that it
    may have more than once. If one link has each key once, and each other link has each of its suspects once, then all
    links have each key once, and `rows` are right: a key that a link has more often than its neighbour is a suspect.
    """

    words: U64Array
    rows: Indices
    codes: U64Array
    suspects: tuple[U64Array, ...]

    @classmethod
    def of_steps(cls, encoder: RowEncoder, steps: Sequence[Difference]) -> Self:
        words = np.concatenate([step.words for step in steps], axis=1)
        keys, firsts = group_equal(encoder.key_words(words))
        codes = encoder.codes_of(words[:, firsts])
        changes, start = [], 0
        suspects: list[list[U64Array]] = [[] for _ in range(len(steps) + 1)]
        for number, step in enumerate(steps):
            rows = np.arange(start, start + len(step))
            start += len(step)
            surplus = np.zeros(len(firsts), np.int64)
            np.add.at(surplus, keys[rows], step.counts)
            suspects[number].append(codes[surplus < 0])
            suspects[number + 1].append(codes[surplus > 0])
            changes.append((rows[step.counts < 0], rows[step.counts > 0]))
        rows_by_link = _rows_by_link(keys, len(firsts), changes)
        return cls(words, rows_by_link, codes, tuple(np.unique(np.concatenate(found)) for found in suspects))

    def words_of(self, link: int) -> U64Array:
        """The rows that a link has of these keys."""
        rows = self.rows[link]
        return self.words[:, rows[rows != ABSENT]]

    def absent_codes(self, link: int) -> U64Array:
        """The codes of the keys that a link lacks, sorted."""
        return np.unique(self.codes[self.rows[link] == ABSENT])


def peel_chain(links: Sequence[Sketch]) -> KeyVersions | StuckStep:
    """Return the rows of the keys that differ, or the first step whose rows cannot be told apart.

    All sketches must have the same encoder.
    """
    steps = []
    for number, (earlier, later) in enumerate(pairwise(links)):
        step = later.minus(earlier).peel()
        if isinstance(step, Remainder):
            return StuckStep(number, step)
        steps.append(step)
    return KeyVersions.of_steps(links[0].encoder, steps)


def _rows_by_link(keys: Indices, key_count: int, changes: Sequence[tuple[Indices, Indices]]) -> Indices:
    """Return `KeyVersions.rows`. `keys`: the key of each row. `changes`: of each step, the removed and added rows."""
    state = np.full(key_count, ABSENT, np.intp)
    for removed, added in reversed(changes):  # what the first link has, by the first step in which a key occurs
        state[keys[added]] = ABSENT
        state[keys[removed]] = removed
    states = [state]
    for removed, added in changes:
        state = state.copy()
        state[keys[removed]] = ABSENT
        state[keys[added]] = added
        states.append(state)
    return np.stack(states)
