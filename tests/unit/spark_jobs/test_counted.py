"""Hashes that are only counted, in memory and on disk, against plain sets."""

from __future__ import annotations

import numpy as np
import pytest

from dedup_spark.adopt import counted
from dedup_spark.adopt.counted import CountedHashes, count_changed

RANDOM = np.random.default_rng(20261122)
FIRSTS, CONTENTS = (RANDOM.integers(0, 2**64, 5000, dtype=np.uint64) for _ in range(2))


def side(contents: np.ndarray, at_a_time: int) -> list[CountedHashes]:
    """As two threads would gather it."""
    both = [CountedHashes(), CountedHashes()]
    for start in range(0, len(contents), at_a_time):
        rows = slice(start, start + at_a_time)
        both[start % 2].add(FIRSTS[rows], contents[rows])
    return both


@pytest.mark.parametrize(("held", "on_disk"), [(1 << 20, False), (700, True), (2000, True), (0, True)])
def test_rows_with_other_values_are_counted_in_memory_and_on_disk(
    monkeypatch: pytest.MonkeyPatch, held: int, on_disk: bool
) -> None:
    monkeypatch.setattr(counted, "_HELD_ROWS", held)
    now = CONTENTS.copy()
    now[100:160] *= np.uint64(3)
    state, newest = side(CONTENTS, 333), side(now[::-1], 501)
    assert any(part.is_on_disk for part in (*state, *newest)) is on_disk
    assert count_changed(state, newest, None) == 60


def test_only_chosen_rows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counted, "_HELD_ROWS", 1000)
    wanted = np.uint64(2**63) > FIRSTS
    newest = side(CONTENTS * np.uint64(3), 100)
    found = count_changed(side(CONTENTS, 100), newest, lambda firsts: np.flatnonzero(firsts < np.uint64(2**63)))
    assert found == wanted.sum()


def test_nothing_counted_is_nothing_changed() -> None:
    assert count_changed([CountedHashes()], [], None) == 0
