"""Pairs delivered rows with the parent's rows of the same keys, and decides which row of each pair is retained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dedup_clone.contract.table import Column
from dedup_spark.arrays import BoolArray, I64Array, Indices
from dedup_spark.comparison.aligned_rows import ABSENT, align
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.plans.rewrite.rewrite_task import MergePolicy


@dataclass(frozen=True)
class RowPairs:
    """Indices of delivered rows (`new`, `replacing`) and of the parent's rows (`replaced`, `changed`, `missing`).

    `new`: rows whose key the parent lacks. `replacing`, `replaced`: at each position, a delivered row and the parent's
    row that it replaces. `changed`: the `replaced` rows whose values differ. `missing`: rows whose key the delivery
    lacks.
    """

    new: Indices
    replacing: Indices
    replaced: Indices
    changed: Indices
    missing: Indices


def pair_rows(
    columns: tuple[Column, ...], delivered: SelectedRows, parent: SelectedRows, policy: MergePolicy, snapshot_id: int
) -> RowPairs:
    """Pair rows by their keys, which each side has at most once.

    `columns`: the key columns. `snapshot_id`: the snapshot id of the delivery, and so the update_id of its rows.
    """
    delivered_rows, parent_rows = align(columns, [delivered, parent])
    is_paired = (delivered_rows != ABSENT) & (parent_rows != ABSENT)
    partner, paired = delivered_rows[is_paired], parent_rows[is_paired]
    differs = delivered.value_hashes[partner] != parent.value_hashes[paired]
    replaces = _replaces(policy, differs, parent.update_ids[paired], snapshot_id)
    return RowPairs(
        new=delivered_rows[parent_rows == ABSENT],
        replacing=partner[replaces],
        replaced=paired[replaces],
        changed=paired[replaces & differs],
        missing=parent_rows[delivered_rows == ABSENT],
    )


def _replaces(policy: MergePolicy, differs: BoolArray, parent_ids: I64Array, snapshot_id: int) -> BoolArray:
    """For each pair whether the delivered row replaces the parent's."""
    if policy is MergePolicy.BY_VALUE:
        return differs
    # If the update_ids are equal, the later delivery wins, which is this one: the parent has only earlier deliveries.
    return np.asarray(parent_ids <= snapshot_id)
