"""Partitions hold the manifest's rows, unchanged, and expire as the contract says."""

from __future__ import annotations

from datetime import timedelta

import pytest

from dedup_clone.checks import partition_checks as checks
from dedup_clone.checks.check_result import Level
from dedup_clone.warehouse.metadata import PartitionMetadata
from tests.unit.checks.builders import NOW, TODAY, entry, manifest, observation, partition, table

YESTERDAY = TODAY - timedelta(days=1)
LAST_DAY = TODAY - timedelta(days=729)  # expires within a day
SPECIAL = "__UNPARTITIONED__"
TWO = manifest(entry(TODAY), entry(YESTERDAY, rows=5))


@pytest.mark.parametrize(
    ("found", "level"),
    [
        pytest.param([partition(TODAY), partition(YESTERDAY, 5)], Level.PASS, id="equal"),
        pytest.param([partition(TODAY), partition(YESTERDAY, 6)], Level.FAIL, id="one row too many"),
        pytest.param([partition(TODAY)], Level.FAIL, id="a partition is missing"),
        pytest.param([partition(TODAY), partition(YESTERDAY, 5), partition(None, 1)], Level.FAIL, id="NULL dates"),
        pytest.param([partition(TODAY), partition(YESTERDAY, 5), partition(None, 0)], Level.PASS, id="empty __NULL__"),
        pytest.param(
            [partition(TODAY), partition(YESTERDAY, 5), *(PartitionMetadata(SPECIAL, rows, NOW) for rows in (1, 0))],
            Level.FAIL,
            id="two of __UNPARTITIONED__, one empty",
        ),
        pytest.param(
            [partition(TODAY), partition(YESTERDAY, 5), partition(TODAY - timedelta(days=9))],
            Level.FAIL,
            id="foreign day",
        ),
    ],
)
def test_rows_are_compared_by_partition(found: list[PartitionMetadata], level: Level) -> None:
    assert checks.check_rows("staging_rows", TWO, observation(*found)).level is level


def test_partitions_that_are_no_dates_are_named() -> None:
    special = (partition(None, 3), PartitionMetadata(SPECIAL, 4, NOW))
    result = checks.check_rows("staging_rows", TWO, observation(partition(TODAY), partition(YESTERDAY, 5), *special))
    assert result.found == f"__NULL__: 3 rows, expected 0; {SPECIAL}: 4 rows, expected 0"


def test_a_day_that_ends_within_a_day_may_be_gone_but_not_hold_other_rows() -> None:
    ending = manifest(entry(TODAY), entry(LAST_DAY))
    gone = checks.check_rows("staging_rows", ending, observation(partition(TODAY)))
    other = checks.check_rows("staging_rows", ending, observation(partition(TODAY), partition(LAST_DAY, 9)))
    assert (gone.level, other.level) == (Level.PASS, Level.FAIL)
    assert f"{LAST_DAY}: 9 rows, expected 10" in other.found


def test_a_change_after_the_observation_fails() -> None:
    late = partition(TODAY, changed=NOW + timedelta(seconds=1))
    assert checks.check_staging_unchanged(observation(late), None).level is Level.FAIL
    assert checks.check_staging_unchanged(observation(partition(TODAY)), None).level is Level.PASS


def test_a_change_after_the_end_of_the_load_fails_within_a_millisecond() -> None:
    ended = NOW - timedelta(minutes=1)
    results = [
        checks.check_staging_unchanged(
            observation(partition(TODAY, changed=ended + timedelta(microseconds=after))), ended
        )
        for after in (999, 1000)
    ]
    assert [result.level for result in results] == [Level.PASS, Level.FAIL]


@pytest.mark.parametrize(("days", "level"), [(730.0, Level.PASS), (731.0, Level.FAIL), (None, Level.FAIL)])
def test_expiration_must_equal_the_contract(days: float | None, level: Level) -> None:
    seen = observation(facts=table(expiration_days=days))
    found = checks.check_expiration("target_expiration", seen, 730)
    assert found.level is level
    assert level is Level.PASS or "SET OPTIONS (partition_expiration_days = 730)" in found.next_step


@pytest.mark.parametrize(
    ("age_days", "level"),
    [(729, Level.PASS), (730, Level.PASS), (731, Level.WARN), (732, Level.WARN), (800, Level.WARN)],
)
def test_overdue_partitions_warn_and_never_fail(age_days: int, level: Level) -> None:
    """BigQuery may take several days to delete an expired partition (managing-partitioned-tables)."""
    day = TODAY - timedelta(days=age_days)
    assert checks.check_overdue_partitions(observation(partition(day)), 730).level is level


def test_partitions_that_end_within_a_day_are_named() -> None:
    assert (
        str(LAST_DAY) in checks.check_ending_partitions(observation(partition(LAST_DAY), partition(TODAY)), 730).found
    )
