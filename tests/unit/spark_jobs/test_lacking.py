"""How many hashes one list has and another lacks, against plain sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dedup_spark.adopt.changes import lacking


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    common=st.integers(0, 3000),
    asked=st.integers(0, 40),
    held=st.integers(0, 40),
    alike=st.booleans(),
)
def test_hashes_that_the_other_list_lacks_are_counted(
    seed: int, common: int, asked: int, held: int, alike: bool
) -> None:
    """`alike` hashes begin with the same bits, so that the bitmap takes all of them for one another."""
    random = np.random.default_rng(seed)
    words = np.unique(random.integers(0, 2**63, common + asked + held).astype(np.uint64) << np.uint64(1))
    if alike:
        words = np.unique(words >> np.uint64(24) << np.uint64(1))
    random.shuffle(words)
    one, other = words[: common + asked], np.concatenate([words[:common], words[common + asked :]])
    random.shuffle(other)
    assert lacking(one, other) == len(set(one.tolist()) - set(other.tolist()))
