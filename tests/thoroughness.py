"""How many examples a test tries: few in `make test`, more in `make exhaustive`, which sets EXHAUSTIVE=1."""

from __future__ import annotations

import os

from hypothesis import strategies as st

EXHAUSTIVE = os.environ.get("EXHAUSTIVE") == "1"

# Hypothesis always tries the simplest example first. Where only two or three examples are tried, a seed of 0 would be
# one of them in every run, so it is left out.
SEEDS = st.integers(0, 2**32).filter(bool)


def times(quick: int, exhaustive: int) -> int:
    """The number of tries in this run."""
    return exhaustive if EXHAUSTIVE else quick
