"""How many examples a test tries: few in `make test`, more in `make exhaustive`, which sets EXHAUSTIVE=1."""

from __future__ import annotations

import os

from hypothesis import strategies as st

EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"

# Hypothesis always tries the simplest example first. A test that tries only two or three seeds would try 0 in every
# run, so 0 is left out.
SEEDS = st.integers(0, 2**32).filter(bool)


def times(quick: int, exhaustive: int) -> int:
    """The number of tries in this run."""
    return exhaustive if EXHAUSTIVE else quick
