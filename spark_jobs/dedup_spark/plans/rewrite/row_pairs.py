"""Pairs delivered rows with the parent's rows of the same keys, and decides which row of each pair is retained."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dedup_spark.arrays import NO_INDICES, BoolArray, I64Array, Indices, U64Array
from dedup_spark.comparison.selected_rows import SelectedRows
from dedup_spark.plans.rewrite.rewrite_task import MergePolicy


@dataclass(frozen=True)
class RowPairs:
    """Indices of delivered rows (`new`, `replacing`) and of the parent's rows (`replaced`, `changed`, `missing`).

    `new`: rows whose key the parent lacks. `replacing`, `replaced`: at each position, a delivered row and the parent's
    row that it replaces. `changed`: the `replaced` rows whose values differ. `missing`: rows whose key the delivery
    lacks. Indices ascend, except in `replacing`.
    """

    new: Indices
    replacing: Indices
    replaced: Indices
    changed: Indices
    missing: Indices


def pair_rows(
    delivered_keys: U64Array,
    parent_keys: U64Array,
    delivered: SelectedRows,
    parent: SelectedRows,
    policy: MergePolicy,
    snapshot_id: int,
) -> RowPairs | None:
    """Pair rows by their packed keys. Return None if the delivery has duplicate keys, which must be resolved first.

    `snapshot_id`: the snapshot id of the delivery, and so the update_id of its rows.
    """
    order = np.argsort(delivered_keys)
    ordered = delivered_keys[order]
    if (ordered[1:] == ordered[:-1]).any():
        return None
    if not len(delivered_keys):
        return RowPairs(NO_INDICES, NO_INDICES, NO_INDICES, NO_INDICES, np.arange(len(parent_keys)))
    nearest = np.minimum(np.searchsorted(ordered, parent_keys), len(delivered_keys) - 1)
    is_paired = ordered[nearest] == parent_keys
    paired, partner = np.flatnonzero(is_paired), order[nearest[is_paired]]
    is_new = np.ones(len(delivered_keys), dtype=bool)
    is_new[partner] = False
    differs = delivered.value_hashes[partner] != parent.value_hashes[paired]
    replaces = _replaces(policy, differs, parent.update_ids[paired], snapshot_id)
    return RowPairs(
        new=np.flatnonzero(is_new),
        replacing=partner[replaces],
        replaced=paired[replaces],
        changed=paired[replaces & differs],
        missing=np.flatnonzero(~is_paired),
    )


def _replaces(policy: MergePolicy, differs: BoolArray, parent_ids: I64Array, snapshot_id: int) -> BoolArray:
    """For each pair whether the delivered row replaces the parent's."""
    if policy is MergePolicy.BY_VALUE:
        return differs
    # If the update_ids are equal, the later delivery wins, which is this one: the parent has only earlier deliveries.
    return np.asarray(parent_ids <= snapshot_id)
