"""Rows of a delivery and of the parent with equal keys: which counts, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_clone.contract.table import Column
from dedup_spark.adopt.key_words import pack
from dedup_spark.adopt.picked import Picked
from dedup_spark.rewrite.orders import Regime
from dedup_spark.rewrite.pairs import Pairs, match

COLUMNS = (Column("name", "STRING"), Column("number", "INT64"))
Key = tuple[str, int]
Row = tuple[Key, int, int]  # key, update_id, value

KEYS = st.tuples(st.sampled_from(["", "a", "bb"]), st.sampled_from([-(2**63), 0, 5, 2**63 - 1]))
VALUES, IDS = st.integers(0, 2), st.integers(1, 9)


def picked(rows: Sequence[Row]) -> Picked:
    names, numbers = [key[0] for key, _, _ in rows], [key[1] for key, _, _ in rows]
    return Picked(
        values=(
            pa.chunked_array([names] if rows else [], pa.string()),
            pa.chunked_array([numbers] if rows else [], pa.int64()),
        ),
        files=np.zeros(len(rows), np.int32),
        rows=np.arange(len(rows)),
        ids=np.array([snapshot_id for _, snapshot_id, _ in rows], np.int64),
        contents=np.array([value for _, _, value in rows], np.uint64),
        others=None,
    )


def matched(delivered: Picked, held: Picked, regime: Regime, snapshot_id: int) -> Pairs | None:
    words, held_words = pack(COLUMNS, [delivered.values, held.values]).parts
    return match(words, held_words, delivered, held, regime, snapshot_id)


@settings(deadline=None)
@given(
    delivered=st.dictionaries(KEYS, VALUES),
    held=st.dictionaries(KEYS, st.tuples(IDS, VALUES)),
    snapshot_id=IDS,
    regime=st.sampled_from([Regime.LATE, Regime.BY_VALUE]),
)
def test_pairs_are_those_of_a_dictionary(
    delivered: dict[Key, int], held: dict[Key, tuple[int, int]], snapshot_id: int, regime: Regime
) -> None:
    new_rows = [(key, snapshot_id, value) for key, value in delivered.items()]
    old_rows = [(key, known, value) for key, (known, value) in held.items()]
    found = matched(picked(new_rows), picked(old_rows), regime, snapshot_id)
    assert found
    assert {new_rows[n][0] for n in found.new} == delivered.keys() - held.keys()
    assert {old_rows[n][0] for n in found.missing} == held.keys() - delivered.keys()
    differs = {key for key in delivered.keys() & held.keys() if delivered[key] != held[key][1]}
    outranks = {key for key in delivered.keys() & held.keys() if held[key][0] <= snapshot_id}
    takes = differs if regime is Regime.BY_VALUE else outranks
    assert {new_rows[n][0] for n in found.fresh} == takes
    assert [new_rows[n][0] for n in found.fresh] == [old_rows[n][0] for n in found.replaced]
    assert {old_rows[n][0] for n in found.changed} == takes & differs


def test_a_delivered_row_takes_the_place_of_every_row_of_its_key_when_it_is_in_order() -> None:
    held = picked([(("a", 1), 3, 7), (("a", 2), 3, 7)])
    found = matched(picked([(("a", 1), 4, 7)]), held, Regime.IN_ORDER, 4)
    assert found
    assert (found.replaced.tolist(), found.changed.tolist(), found.missing.tolist()) == ([0], [], [1])


def test_without_rows_of_the_parent_all_is_new() -> None:
    found = matched(picked([(("a", 1), 4, 7), (("a", 2), 4, 7)]), picked([]), Regime.BY_VALUE, 4)
    assert found
    assert sorted(found.new.tolist()) == [0, 1]


def test_a_key_that_is_delivered_twice_is_no_case_for_pairs() -> None:
    twice = picked([(("a", 1), 4, 7), (("a", 1), 4, 8)])
    assert matched(twice, picked([]), Regime.BY_VALUE, 4) is None
