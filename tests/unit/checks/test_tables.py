"""Schema, layout, lineage, policies and partitions of staging and target."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest

from dedup_clone.checks import partition_checks as partitions
from dedup_clone.checks import table_checks as tables
from dedup_clone.checks.check_result import Level
from dedup_clone.contract.table import Column, PartitionBy
from dedup_clone.settings.table_settings import PolicySettings
from dedup_clone.warehouse.metadata import PartitionMetadata, Policies, StreamingBuffer
from tests.unit.checks.builders import COLUMNS, NOW, TABLE, TODAY, entry, manifest, observation, partition, table


@pytest.mark.parametrize(
    ("columns", "level"),
    [
        (COLUMNS, Level.PASS),
        (COLUMNS[::-1], Level.FAIL),
        (COLUMNS[:-1], Level.FAIL),
        ((*COLUMNS[:-1], Column("update_id", "STRING")), Level.FAIL),
    ],
)
def test_staging_has_the_declared_columns(columns: tuple[Column, ...], level: Level) -> None:
    assert tables.check_staging_schema(table(columns=columns), TABLE).level is level


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
    assert partitions.check_rows("staging_rows", TWO, observation(*found)).level is level


def of_hour(day: date, hour: int, rows: int = 1) -> PartitionMetadata:
    return PartitionMetadata(f"{day:%Y%m%d}{hour:02}", rows, NOW - timedelta(minutes=1))


OF_TODAY = [of_hour(TODAY, 0, 3), of_hour(TODAY, 11, 7)]
ENDED = TODAY - timedelta(days=30)  # with a retention of 30 days it expires today, hour after hour


@pytest.mark.parametrize(
    ("found", "level"),
    [
        ([of_hour(ENDED, 3, 4), of_hour(ENDED, 23, 6), *OF_TODAY], Level.PASS),
        ([of_hour(ENDED, 23, 6), *OF_TODAY], Level.PASS),
        (OF_TODAY, Level.PASS),
        ([of_hour(ENDED, 23, 11), *OF_TODAY], Level.FAIL),
        ([of_hour(ENDED, 3, 4), of_hour(ENDED, 23, 6), OF_TODAY[1]], Level.FAIL),
    ],
)
def test_the_hours_of_a_day_are_counted_together_and_expire_one_after_another(
    found: list[PartitionMetadata], level: Level
) -> None:
    """By the page "Manage partitioned tables", a partition expires by its start."""
    hourly = replace(TABLE, partition_by=PartitionBy.HOUR, retention_days=30)
    two = replace(manifest(entry(ENDED), entry(TODAY)), table=hourly)
    assert partitions.check_rows("staging_rows", two, observation(*found)).level is level


@pytest.mark.parametrize(("hour", "level"), [(11, Level.WARN), (12, Level.PASS)])
def test_an_hour_is_overdue_a_day_after_it_has_expired(hour: int, level: Level) -> None:
    hours = observation(of_hour(ENDED - timedelta(days=1), hour), *OF_TODAY)
    assert partitions.check_overdue_partitions(hours, 30).level is level


@pytest.mark.parametrize(
    ("today", "oldest"),
    [
        (date(2026, 3, 15), date(2026, 2, 1)),  # 60 days end on 15 January, and January began before
        (date(2026, 3, 1), date(2026, 1, 1)),  # they end on 1 January
        (date(2026, 3, 2), date(2026, 2, 1)),
        (date(2026, 2, 10), date(2026, 1, 1)),  # on 13 December
    ],
)
def test_the_oldest_date_of_a_table_by_month_begins_a_month(today: date, oldest: date) -> None:
    monthly = replace(TABLE, partition_by=PartitionBy.MONTH, retention_days=60)
    assert monthly.oldest_day(today) == oldest
    assert replace(TABLE, retention_days=60).oldest_day(today) == today - timedelta(days=59)


def test_the_layout_has_the_unit_of_the_partitions() -> None:
    monthly = replace(TABLE, partition_by=PartitionBy.MONTH)
    of_days, of_months = table("f_staging", granularity="DAY"), table("f_staging", granularity="MONTH")
    assert tables.check_layout(of_months, None, monthly).level is Level.PASS
    wrong = tables.check_layout(of_days, None, monthly)
    assert (wrong.level, wrong.expected) == (Level.FAIL, tables.check_layout(of_months, None, monthly).expected)
    assert tables.check_layout(of_months, None, TABLE).level is Level.FAIL


def test_a_day_that_ends_within_a_day_may_be_gone_but_not_hold_other_rows() -> None:
    ending = manifest(entry(TODAY), entry(LAST_DAY))
    gone = partitions.check_rows("staging_rows", ending, observation(partition(TODAY)))
    other = partitions.check_rows("staging_rows", ending, observation(partition(TODAY), partition(LAST_DAY, 9)))
    assert (gone.level, other.level) == (Level.PASS, Level.FAIL)
    assert f"{LAST_DAY}: 9 rows, expected 10" in other.found


def test_a_change_after_the_observation_fails() -> None:
    late = partition(TODAY, changed=NOW + timedelta(seconds=1))
    assert partitions.check_staging_unchanged(observation(late), None).level is Level.FAIL
    assert partitions.check_staging_unchanged(observation(partition(TODAY)), None).level is Level.PASS


def test_a_change_after_the_end_of_the_load_fails_within_a_millisecond() -> None:
    ended = NOW - timedelta(minutes=1)
    results = [
        partitions.check_staging_unchanged(
            observation(partition(TODAY, changed=ended + timedelta(microseconds=after))), ended
        )
        for after in (999, 1000)
    ]
    assert [result.level for result in results] == [Level.PASS, Level.FAIL]


@pytest.mark.parametrize(
    ("age_days", "level"),
    [(729, Level.PASS), (730, Level.PASS), (731, Level.WARN), (732, Level.WARN), (800, Level.WARN)],
)
def test_overdue_partitions_warn_and_never_fail(age_days: int, level: Level) -> None:
    """BigQuery may take several days to delete an expired partition (managing-partitioned-tables)."""
    day = TODAY - timedelta(days=age_days)
    assert partitions.check_overdue_partitions(observation(partition(day)), 730).level is level


def test_another_policy_tag_than_the_declared_one_is_a_missing_one() -> None:
    tag = "projects/p/locations/us/taxonomies/1/policyTags/2"
    declared = PolicySettings(row_access=("only_own_stores",), column_tags={"attr_value": tag})
    for found, level in ((tag, Level.PASS), ("projects/p/other", Level.FAIL)):
        policies = Policies(("another", "only_own_stores"), {"attr_value": found, "store_id": "x"})
        assert tables.check_policies("staging_policies", policies, declared).level is level


def test_streamed_rows_of_unknown_age_fail() -> None:
    result = tables.check_streaming_buffer([table(streaming_buffer=StreamingBuffer(12, None))], NOW)
    assert (result.level, result.found) == (Level.FAIL, "f_staging: about 12 streamed rows of unknown age")
