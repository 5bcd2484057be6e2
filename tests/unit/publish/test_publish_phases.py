"""The phases of a publish add up to its lag."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from dedup_clone.publish.records.publish_phases import PHASES, divide_into_phases, phases_in_order

REPOSITORY = Path(__file__).parents[3]


def at(second: float) -> datetime:
    return datetime(2026, 11, 21, 12, tzinfo=UTC) + timedelta(seconds=second)


def test_phases_end_where_the_next_one_begins() -> None:
    found = divide_into_phases(at(0), {"until_lease": at(5), "dedup": at(20), "swap": at(21)}, until=at(21))
    assert found == {"until_lease": 5.0, "dedup": 15.0, "swap": 1.0, "queued": 0.0}


def test_the_time_of_a_phase_without_a_recorded_end_counts_for_the_next_one() -> None:
    assert divide_into_phases(at(0), {"task_start": None, "dedup": at(20)}, until=at(20)) == {
        "dedup": 20.0,
        "queued": 0.0,
    }


def test_clocks_that_differ_give_no_negative_phase_and_keep_the_sum() -> None:
    found = divide_into_phases(
        at(0), {"until_lease": at(5), "dedup": at(4), "load": at(30), "swap": at(21)}, until=at(21)
    )
    assert found == {"until_lease": 5.0, "dedup": 0.0, "load": 16.0, "swap": 0.0, "queued": 0.0}


def test_the_time_in_which_jobs_were_pending_is_a_phase_of_its_own_and_counted_once() -> None:
    pending = [(at(18), at(24)), (at(22), at(26)), (at(29), at(40)), (at(-5), at(-1))]
    found = divide_into_phases(at(0), {"dedup": at(20), "load": at(28), "swap": at(31)}, pending, until=at(31))
    assert found == {"dedup": 18.0, "load": 2.0, "swap": 1.0, "queued": 10.0}
    assert sum(found.values()) == 31.0


def test_the_page_the_document_and_the_ledger_table_have_the_phases_in_the_same_order() -> None:
    page = (REPOSITORY / "plugins" / "dedup_clone" / "page" / "static" / "phases.js").read_text()
    assert tuple(re.findall(r"^  (\w+): ", page.split("PHASES = {")[1].split("};")[0], re.MULTILINE)) == PHASES
    budget = (REPOSITORY / "docs" / "hour.md").read_text().split("## The budget")[1].split("**reserve**")[0]
    documented = [name for name in re.findall(r"`(\w+)`: ", budget) if name != "queued"]
    assert documented == [name for name in PHASES if name not in ("load_queue", "queued")]
    assert [name for name, _ in phases_in_order(dict.fromkeys(sorted(PHASES), 1.0))] == list(PHASES)
