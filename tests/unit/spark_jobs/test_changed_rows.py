"""The number of hashes that one list has and another lacks, against plain sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_spark.comparison.changed_rows import count_missing


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    common=st.integers(0, 3000),
    wanted=st.integers(0, 40),
    present=st.integers(0, 40),
    same_bits=st.booleans(),
)
def test_hashes_that_the_other_list_lacks_are_counted(
    seed: int, common: int, wanted: int, present: int, same_bits: bool
) -> None:
    """With `same_bits` all hashes begin with the same bits, so that the bitmap cannot tell them apart."""
    random = np.random.default_rng(seed)
    hashes = np.unique(random.integers(0, 2**63, common + wanted + present).astype(np.uint64) << np.uint64(1))
    if same_bits:
        hashes = np.unique(hashes >> np.uint64(24) << np.uint64(1))
    random.shuffle(hashes)
    one, other = hashes[: common + wanted], np.concatenate([hashes[:common], hashes[common + wanted :]])
    random.shuffle(other)
    assert count_missing(one, other) == len(set(one.tolist()) - set(other.tolist()))
