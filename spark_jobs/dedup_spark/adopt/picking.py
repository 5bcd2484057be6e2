"""Picks the rows of both sides that a selection asks for, and holds them against the fingerprints that it came from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.adopt.picked import Picked, Rows
from dedup_spark.adopt.selection import CLOSED, Selection
from dedup_spark.adopt.sides import DateSides
from dedup_spark.fingerprints.key_columns import Words


def pick_differing(sides: DateSides, selection: Selection) -> tuple[Picked, Picked, npt.NDArray[np.intp]]:
    """Rows of the newest delivery and of the parent that have to be compared; without a parent the first twice.

    Buckets that the selection does not explain are left out, and returned.
    """
    newest = sides.newest.pick(selection.rows)
    # Survivors are among these rows: with their values at hand the file need not be read once more for them.
    state = sides.state.pick(selection.rows, sides.base_id, with_others=True) if sides.state else newest
    if not selection.narrows:
        return newest, state, _NO_BUCKETS
    is_base = state.ids == sides.base_id
    of_newest, of_base = selection.single_rows(newest.firsts), selection.single_rows(state.firsts)
    left = selection.unexplained(_hashes(sides, newest, of_newest), _hashes(sides, state, of_base[is_base[of_base]]))
    if len(left):
        rest = selection.with_kind(CLOSED, left)
        newest, state = _only(rest, newest), _only(rest, state)
    return newest, state, left


def _only(selection: Selection, picked: Picked) -> Picked:
    """What lies in open buckets."""
    return picked.only(selection.open_rows(picked.firsts), selection.open_rows(picked.counted_firsts))


def _hashes(sides: DateSides, picked: Picked, rows: Rows) -> tuple[Words, Words]:
    places = pa.array(rows)
    return sides.hashing.keys.both([column.take(places).combine_chunks() for column in picked.values])


_NO_BUCKETS: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
