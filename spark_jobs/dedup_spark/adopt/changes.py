"""How many rows of both sides have other values, by hashes of the values that are bound to the keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dedup_spark.adopt.comparison import compare, places
from dedup_spark.adopt.picked import Picked
from dedup_spark.fingerprints.key_columns import Words

_ONE = np.uint64(1)
_LOOKED_AT = 1000
# A bitmap with so many places for each hash takes one of sixteen for another's.
_SLOTS_PER_HASH, _LEAST_BITS, _MOST_BITS = 16, 10, 24
_PART_BITS = 12


def changed_rows(
    newest: Picked, state: Picked, state_words: Words, only_state: Words, sample: int
) -> tuple[int, npt.NDArray[np.intp]]:
    """Of the keys in both, those with other values: their number, and some of their places in `state`.

    `only_state` are the sorted words that the newest lacks. Keys in both, less hashes in both: a hash is of a key and
    its values, so nothing has to be brought side by side.
    """
    # Comparisons have room for 63 bits of a hash.
    held = state.contents >> _ONE
    other = compare(newest.contents >> _ONE, held, 0).missing
    count = (len(state_words) - len(only_state)) - (len(held) - len(other))
    if not count:
        return 0, places(held, other[:0])
    # Hashes that are gone are of changed rows or of missing keys, and those that come first do for examples.
    rows = places(held, other[: sample + len(only_state)][:_LOOKED_AT])
    words = state_words[rows]
    kept = np.ones(len(rows), dtype=bool)
    kept[places(words, only_state)] = False
    return count, rows[kept][:sample]


def overtaken_rows(
    order: npt.NDArray[np.intp], is_last: npt.NDArray[np.bool_], is_state: npt.NDArray[np.bool_], contents: Words
) -> int:
    """Of keys that only older deliveries and the parent have: how many take other values than the parent's.

    `order` sorts the rows by key and precedence, `is_last` says in that order which of a key counts.
    """
    winners = np.flatnonzero(is_last)
    losers = np.flatnonzero(is_state[order] & ~is_last)
    winning = winners[np.searchsorted(winners, losers)]
    return int((contents[order[losers]] != contents[order[winning]]).sum())


def lacking(asked: Words, held: Words) -> int:
    """How many of the distinct hashes `asked` are not among the distinct hashes `held`.

    A bitmap finds nearly all of them; sums over many small parts say where it missed some, and only there the hashes
    are sorted, which costs more than all the rest.
    """
    found, others = asked[~_seen(held, asked)], held[~_seen(asked, held)]
    differs = _sums(asked) - _sums(found) != _sums(held) - _sums(others)
    again = compare(held[differs[_part(held)]] >> _ONE, asked[differs[_part(asked)]] >> _ONE, 0).missing
    return int((~differs[_part(found)]).sum()) + len(again)


def _seen(held: Words, asked: Words) -> npt.NDArray[np.bool_]:
    """For each hash whether one of `held` begins with the same bits."""
    bits = min(max((len(held) * _SLOTS_PER_HASH).bit_length(), _LEAST_BITS), _MOST_BITS)
    shift = np.uint64(64 - bits)
    seen = np.zeros(1 << bits, dtype=bool)
    seen[(held >> shift).astype(np.intp)] = True
    return seen[(asked >> shift).astype(np.intp)]


def _sums(hashes: Words) -> Words:
    sums = np.zeros(1 << _PART_BITS, dtype=np.uint64)
    np.add.at(sums, _part(hashes), hashes)
    return sums


def _part(hashes: Words) -> npt.NDArray[np.intp]:
    """By the lowest bits, which the bitmap does not look at, but one: comparisons have no room for it."""
    return ((hashes >> _ONE) & np.uint64((1 << _PART_BITS) - 1)).astype(np.intp)
