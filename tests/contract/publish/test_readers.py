"""The short form of the long run with readers: every answer is that of one generation, and none goes backwards."""

from __future__ import annotations

from pathlib import Path

from soak.readers.run import run


def test_readers_see_whole_generations_in_order_while_publishes_fail_and_roll_back(tmp_path: Path) -> None:
    section = run(tmp_path, swaps=5, per_second=10, must_keep_pace=False)
    assert section.problems == (), section
