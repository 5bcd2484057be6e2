"""Exact comparison of two lists of key words: which are repeated, which one side lacks, how many both have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dedup_spark.fingerprints.key_columns import Words

_ONE = np.uint64(1)
# A bitmap with so many places for each word lets one of so many others pass.
_SLOTS_PER_WORD, _LEAST_FILTER_BITS, _MOST_FILTER_BITS = 16, 16, 26
_FILTER_FACTOR = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Comparison:
    """`surplus` has one entry for each repetition in the new list; `missing` are distinct old words that it lacks.

    `added` are distinct new words that the old list lacks, of which `added_sample` are a few.
    """

    surplus: Words
    missing: Words
    added: int
    added_sample: Words


def compare(new: Words, old: Words, sample: int) -> Comparison:
    """Words have at most 63 bits. Sorts both lists as one, the old one's words before equal new ones."""
    both = np.empty(len(new) + len(old), dtype=np.uint64)
    np.left_shift(old, _ONE, out=both[: len(old)])
    np.left_shift(new, _ONE, out=both[len(old) :])
    both[len(old) :] |= _ONE
    both.sort()
    words, is_new = both >> _ONE, (both & _ONE).astype(bool)
    same_as_next = np.zeros(len(words), dtype=bool)
    np.equal(words[1:], words[:-1], out=same_as_next[:-1])
    is_first = np.ones(len(words), dtype=bool)
    np.logical_not(same_as_next[:-1], out=is_first[1:])
    only_new = np.flatnonzero(is_first & is_new)
    return Comparison(
        surplus=words[same_as_next & is_new],
        missing=words[~same_as_next & ~is_new],
        added=len(only_new),
        added_sample=words[only_new[:sample]],
    )


def places(words: Words, wanted: Words) -> npt.NDArray[np.intp]:
    """Where the words that are among the sorted `wanted` lie, ascending."""
    if not len(wanted):
        return np.zeros(0, dtype=np.intp)
    # A bitmap of hashes lets few others pass to the exact search, which costs a cache miss a step.
    bits = min(max((len(wanted) * _SLOTS_PER_WORD).bit_length(), _LEAST_FILTER_BITS), _MOST_FILTER_BITS)
    seen = np.zeros(1 << bits, dtype=bool)
    seen[_filter_place(wanted, bits)] = True
    passed = np.flatnonzero(seen[_filter_place(words, bits)])
    found = np.minimum(np.searchsorted(wanted, words[passed]), len(wanted) - 1)
    return np.asarray(passed[wanted[found] == words[passed]], dtype=np.intp)


def _filter_place(words: Words, bits: int) -> npt.NDArray[np.intp]:
    place: npt.NDArray[np.intp] = ((words * _FILTER_FACTOR) >> np.uint64(64 - bits)).view(np.intp)
    return place
