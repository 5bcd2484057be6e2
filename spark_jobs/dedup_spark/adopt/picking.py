"""Picks the rows of both sides that a selection asks for, and holds them against the fingerprints that it came from."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dedup_spark.adopt.counted import count_changed
from dedup_spark.adopt.picked import Picked, Rows
from dedup_spark.adopt.selection import CLOSED, Selection
from dedup_spark.adopt.sides import DateSides
from dedup_spark.fingerprints.key_columns import Words


@dataclass(frozen=True)
class PickedSides:
    """Rows that have to be compared; `changed` rows need no comparison and have other values, where values are known.

    Buckets that the selection does not explain are `left` out.
    """

    newest: Picked
    state: Picked
    changed: int = 0
    left: npt.NDArray[np.intp] = field(default_factory=lambda: np.zeros(0, dtype=np.intp))


def pick_differing(sides: DateSides, selection: Selection) -> PickedSides:
    """Without a parent the newest delivery's rows are both sides."""
    newest, new_hashes = sides.newest.pick_and_count(selection.rows)
    if sides.state is None:
        return PickedSides(newest, newest)
    # Survivors are among these rows: with their values at hand the file need not be read once more for them.
    state, hashes = sides.state.pick_and_count(selection.rows, sides.base_id, with_others=True)
    if not selection.narrows:
        return PickedSides(newest, state, count_changed(hashes, new_hashes, None))
    is_base = state.ids == sides.base_id
    of_newest, of_base = selection.single_rows(newest.firsts), selection.single_rows(state.firsts)
    left = selection.unexplained(_hashes(sides, newest, of_newest), _hashes(sides, state, of_base[is_base[of_base]]))
    if not len(left):
        return PickedSides(newest, state, count_changed(hashes, new_hashes, None))
    rest = selection.with_kind(CLOSED, left)
    newest, state = (side.only(rest.open_rows(side.firsts)) for side in (newest, state))
    return PickedSides(newest, state, count_changed(hashes, new_hashes, rest.open_rows), left)


def _hashes(sides: DateSides, picked: Picked, rows: Rows) -> tuple[Words, Words]:
    places = pa.array(rows)
    return sides.hashing.keys.both([column.take(places).combine_chunks() for column in picked.values])
