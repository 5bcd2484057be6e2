"""How many loads of the whole table the BigQuery jobs of an attempt count as."""

from __future__ import annotations

import pytest

from dedup_clone.state.ledger import count_loads


@pytest.mark.parametrize(
    ("steps", "loads"),
    [
        ([], 0),
        (["copy-1", "swap-1"], 0),
        (["load-1", "load-2", "swap-1"], 2),
        (["load-1", "replace-1"], 2),
        (["load_20260131-1", "load_20260201-1"], 1),
    ],
)
def test_loads_of_single_dates_count_as_one_and_a_replacement_as_one_more(steps: list[str], loads: int) -> None:
    assert count_loads(f"dedup_clone-load_events-00000001-abcdef-{step}" for step in steps) == loads
