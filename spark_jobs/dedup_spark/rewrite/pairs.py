"""Rows of both sides with equal keys, brought side by side, and what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dedup_spark.adopt.picked import Picked
from dedup_spark.fingerprints.key_columns import Words
from dedup_spark.rewrite.orders import Regime

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Pairs:
    """Places in the two lists of picked rows, ascending but for `fresh` and `replaced`, which belong together.

    `new`: delivered rows whose key the parent lacks. `fresh` and `replaced`: delivered rows that take the place of a
    row of the parent. `changed`: those of `replaced` with other values. `missing`: the parent's rows that the delivery
    lacks.
    """

    new: Rows
    fresh: Rows
    replaced: Rows
    changed: Rows
    missing: Rows


def match(
    words: Words, held_words: Words, delivered: Picked, held: Picked, regime: Regime, snapshot_id: int
) -> Pairs | None:
    """`words` and `held_words` are the keys of both. None when the delivery holds a key more than once: ties come
    first."""
    order = np.argsort(words)
    ordered = words[order]
    if (ordered[1:] == ordered[:-1]).any():
        return None
    if not len(words):
        return Pairs(_NONE, _NONE, _NONE, _NONE, np.arange(len(held_words)))
    places = np.minimum(np.searchsorted(ordered, held_words), len(words) - 1)
    met = ordered[places] == held_words
    both, partner = np.flatnonzero(met), order[places[met]]
    is_new = np.ones(len(words), dtype=bool)
    is_new[partner] = False
    differs = delivered.contents[partner] != held.contents[both]
    takes = _takes(regime, differs, held.ids[both], snapshot_id)
    return Pairs(np.flatnonzero(is_new), partner[takes], both[takes], both[takes & differs], np.flatnonzero(~met))


def _takes(
    regime: Regime, differs: npt.NDArray[np.bool_], held_ids: npt.NDArray[np.int64], snapshot_id: int
) -> npt.NDArray[np.bool_]:
    if regime is Regime.BY_VALUE:
        return differs
    # Of two deliveries of one id the later one counts, and this one is later than all that the parent has.
    return np.asarray(held_ids <= snapshot_id)


_NONE: Rows = np.zeros(0, dtype=np.intp)
