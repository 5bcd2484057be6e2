"""Changed rows counted by hashes, in memory and spilled to disk, against plain sets."""

from __future__ import annotations

import numpy as np
import pytest

from dedup_spark.comparison import spilled_hashes
from dedup_spark.comparison.spilled_hashes import ChangedRowsCounter, SpillableHashes

RANDOM = np.random.default_rng(20261122)
FIRSTS, VALUES = (RANDOM.integers(0, 2**64, 5000, dtype=np.uint64) for _ in range(2))


def source(value_hashes: np.ndarray, at_a_time: int) -> list[SpillableHashes]:
    """As two threads would collect them."""
    both = [SpillableHashes(), SpillableHashes()]
    for start in range(0, len(value_hashes), at_a_time):
        rows = slice(start, start + at_a_time)
        both[start % 2].add(FIRSTS[rows], value_hashes[rows])
    return both


@pytest.mark.parametrize(("in_memory", "on_disk"), [(1 << 20, False), (700, True), (2000, True), (0, True)])
def test_changed_rows_are_counted_in_memory_and_on_disk(
    monkeypatch: pytest.MonkeyPatch, in_memory: int, on_disk: bool
) -> None:
    monkeypatch.setattr(spilled_hashes, "_ROWS_IN_MEMORY", in_memory)
    now = VALUES.copy()
    now[100:160] *= np.uint64(3)
    parent, newest = source(VALUES, 333), source(now[::-1], 501)
    assert any(part.is_on_disk for part in (*parent, *newest)) is on_disk
    assert ChangedRowsCounter(parent, newest, None).total() == 60


def test_only_selected_rows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_hashes, "_ROWS_IN_MEMORY", 1000)
    wanted = np.uint64(2**63) > FIRSTS
    newest = source(VALUES * np.uint64(3), 100)
    found = ChangedRowsCounter(source(VALUES, 100), newest, lambda f: np.flatnonzero(f < np.uint64(2**63))).total()
    assert found == wanted.sum()


def test_without_hashes_nothing_changed() -> None:
    assert ChangedRowsCounter([SpillableHashes()], [], None).total() == 0
