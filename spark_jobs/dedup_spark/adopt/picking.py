"""Picks the rows of both sides that a selection asks for, and holds them against the fingerprints that it came from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.adopt.selection import CLOSED, WHOLE, Selection
from dedup_spark.adopt.side import Picked
from dedup_spark.adopt.sides import DateSides
from dedup_spark.fingerprints.key_columns import Words

Mask = npt.NDArray[np.bool_]


def pick_differing(
    sides: DateSides, selection: Selection, *, sparing: bool
) -> tuple[Picked, Picked, npt.NDArray[np.intp]]:
    """Rows of the newest delivery and of the parent that have to be compared; without a parent the first twice.

    Rows of buckets that the selection does not explain are compared as a whole. `sparing` does not even pick what needs
    no comparison: then such buckets are left out, and returned.
    """
    choose = selection.compares if sparing else selection.picks
    count = selection.counts_all if sparing else selection.counts
    newest = sides.newest.pick(choose, count)
    # Survivors are among these rows: with their values at hand the file need not be read once more for them.
    state = sides.state.pick(choose, count, sides.base_id, with_others=True) if sides.state else newest
    if not selection.narrows:
        return newest, state, _NO_BUCKETS
    every, is_base = np.ones(len(newest), dtype=bool), state.ids == sides.base_id
    unexplained = selection.unexplained(
        _looked_up(sides, selection, newest, every), _looked_up(sides, selection, state, is_base)
    )
    selection = selection.with_kind(CLOSED if sparing else WHOLE, unexplained)
    left = unexplained if sparing else _NO_BUCKETS
    return _narrowed(selection, newest, every), _narrowed(selection, state, is_base), left


def _narrowed(selection: Selection, picked: Picked, mine: Mask) -> Picked:
    """The rows that have to be compared; of the others that are `mine` the hashes."""
    rest = picked.only(selection.compares(picked.firsts), mine & selection.counts_all(picked.firsts))
    wanted = selection.counts_all(rest.counted_firsts)
    return replace(rest, counted_firsts=rest.counted_firsts[wanted], counted=rest.counted[wanted])


def _looked_up(sides: DateSides, selection: Selection, picked: Picked, mine: Mask) -> tuple[Words, Words]:
    """Both hashes of those of `mine` that have a hash that one key is looked up by."""
    wanted = mine & selection.is_single(picked.firsts) & selection.compares(picked.firsts)
    places = pa.array(np.flatnonzero(wanted))
    return sides.hashing.keys.both([column.take(places).combine_chunks() for column in picked.values])


_NO_BUCKETS: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
