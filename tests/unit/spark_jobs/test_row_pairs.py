"""Pairs of delivered rows and rows of the parent: which is retained, against plain Python."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_clone.contract.table import Column
from dedup_spark.comparison.packed_keys import pack_keys
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.plans.rewrite.rewrite_task import MergePolicy
from dedup_spark.plans.rewrite.row_pairs import RowPairs, pair_rows

COLUMNS = (Column("name", "STRING"), Column("number", "INT64"))
Key = tuple[str, int]
Row = tuple[Key, int, int]  # key, update_id, value

KEYS = st.tuples(st.sampled_from(["", "a", "bb"]), st.sampled_from([-(2**63), 0, 5, 2**63 - 1]))
VALUES, IDS = st.integers(0, 2), st.integers(1, 9)


def selected(rows: Sequence[Row]) -> SelectedRows:
    names, numbers = [key[0] for key, _, _ in rows], [key[1] for key, _, _ in rows]
    return SelectedRows(
        key_columns=(
            pa.chunked_array([names] if rows else [], pa.string()),
            pa.chunked_array([numbers] if rows else [], pa.int64()),
        ),
        file_numbers=np.zeros(len(rows), np.int32),
        row_numbers=np.arange(len(rows)),
        update_ids=np.array([snapshot_id for _, snapshot_id, _ in rows], np.int64),
        first_hashes=np.zeros(len(rows), np.uint64),
        value_hashes=np.array([value for _, _, value in rows], np.uint64),
        value_columns=None,
    )


def paired(delivered: SelectedRows, parent: SelectedRows, policy: MergePolicy, snapshot_id: int) -> RowPairs | None:
    keys, parent_keys = pack_keys(COLUMNS, [delivered.key_columns, parent.key_columns]).lists
    return pair_rows(keys, parent_keys, delivered, parent, policy, snapshot_id)


@settings(deadline=None)
@given(
    delivered=st.dictionaries(KEYS, VALUES),
    parent=st.dictionaries(KEYS, st.tuples(IDS, VALUES)),
    snapshot_id=IDS,
    policy=st.sampled_from([MergePolicy.LATE, MergePolicy.BY_VALUE]),
)
def test_pairs_are_those_of_a_dictionary(
    delivered: dict[Key, int], parent: dict[Key, tuple[int, int]], snapshot_id: int, policy: MergePolicy
) -> None:
    new_rows = [(key, snapshot_id, value) for key, value in delivered.items()]
    old_rows = [(key, known, value) for key, (known, value) in parent.items()]
    found = paired(selected(new_rows), selected(old_rows), policy, snapshot_id)
    assert found
    assert {new_rows[n][0] for n in found.new} == delivered.keys() - parent.keys()
    assert {old_rows[n][0] for n in found.missing} == parent.keys() - delivered.keys()
    differs = {key for key in delivered.keys() & parent.keys() if delivered[key] != parent[key][1]}
    outranks = {key for key in delivered.keys() & parent.keys() if parent[key][0] <= snapshot_id}
    replaces = differs if policy is MergePolicy.BY_VALUE else outranks
    assert {new_rows[n][0] for n in found.replacing} == replaces
    assert [new_rows[n][0] for n in found.replacing] == [old_rows[n][0] for n in found.replaced]
    assert {old_rows[n][0] for n in found.changed} == replaces & differs


def test_in_order_a_delivered_row_always_replaces_the_row_of_its_key() -> None:
    parent = selected([(("a", 1), 3, 7), (("a", 2), 3, 7)])
    found = paired(selected([(("a", 1), 4, 7)]), parent, MergePolicy.IN_ORDER, 4)
    assert found
    assert (found.replaced.tolist(), found.changed.tolist(), found.missing.tolist()) == ([0], [], [1])


def test_without_rows_of_the_parent_all_is_new() -> None:
    found = paired(selected([(("a", 1), 4, 7), (("a", 2), 4, 7)]), selected([]), MergePolicy.BY_VALUE, 4)
    assert found
    assert sorted(found.new.tolist()) == [0, 1]


def test_rows_are_not_paired_when_the_delivery_has_duplicate_keys() -> None:
    twice = selected([(("a", 1), 4, 7), (("a", 1), 4, 8)])
    assert paired(twice, selected([]), MergePolicy.BY_VALUE, 4) is None
