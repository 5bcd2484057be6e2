"""The short forms of the long runs with readers: every answer is that of one generation, and none goes backwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from soak.readers import replay_scenario, schema_scenario, swap_scenario


def test_readers_see_whole_generations_in_order_while_publishes_fail_and_roll_back(tmp_path: Path) -> None:
    section = swap_scenario.run(tmp_path, swaps=5, per_second=10, must_keep_rate=False)
    assert section.problems == (), section


@pytest.mark.exhaustive
def test_readers_see_exactly_what_is_replayed_and_restored(tmp_path: Path) -> None:
    section = replay_scenario.run(tmp_path, snapshots=3, per_second=10, seed=1)
    assert section.problems == (), section


@pytest.mark.spark
@pytest.mark.exhaustive
def test_readers_see_whole_rows_of_one_generation_while_columns_change(tmp_path: Path) -> None:
    section = schema_scenario.run(tmp_path, publishes=6, per_second=10, must_keep_rate=False)
    assert section.problems == (), section
