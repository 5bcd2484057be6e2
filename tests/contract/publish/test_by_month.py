"""A table that is partitioned by month: its rows, its checks by month, its retention, and what it cannot have."""

from __future__ import annotations

from datetime import timedelta

import pytest
from google.cloud import bigquery
from pydantic import ValidationError

from dedup_clone.contract.errors import BootstrapRefused, ConfigurationError, ContractViolation
from testkit import operations, runs
from testkit.dedup_job import Row
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, expected, row

FIRST_OF_MONTH = TODAY.replace(day=1)
LAST_MONTH = FIRST_OF_MONTH - timedelta(days=1)
EARLIER = LAST_MONTH - timedelta(days=3)  # in the same month
FIRST = [row(7, 1), row(7, 2, day=LAST_MONTH), row(7, 3, day=EARLIER), row(7, 4, day=EARLIER)]
SECOND = [row(8, 1, 21), row(8, 3, 23, day=EARLIER), row(8, 5, day=LAST_MONTH)]
BOTH = [*SECOND, FIRST[1], FIRST[3]]


@pytest.fixture(params=["clone", "copy"])
def monthly(world: FeedOnStandIn, request: pytest.FixtureRequest) -> FeedOnStandIn:
    """A feed with one generation."""
    world.configure(table={"partition_by": "month"}, publish={"swap": request.param})
    world.publish(world.land(7, FIRST))
    return world


def test_rows_are_published_into_months(monthly: FeedOnStandIn) -> None:
    record = monthly.publish(monthly.land(8, SECOND))
    assert monthly.rows() == expected(*BOTH)
    assert (record.new_rows, record.changed_rows, record.kept_rows) == (1, 2, 2)
    target: bigquery.Table = monthly.bigquery.get_table(f"local-dev.warehouse.{monthly.feed.target}")
    assert (target.time_partitioning.type_, target.time_partitioning.field) == ("MONTH", "date")
    assert monthly.rows_by_partition() == {f"{TODAY:%Y%m}": 1, f"{LAST_MONTH:%Y%m}": 4}
    assert {check["level"] for check in monthly.state.checks(record.attempt, "after").values()} == {"pass"}
    assert operations.incident_names(monthly) == []


@pytest.mark.parametrize(
    ("absent_dates", "left"),
    [
        ("keep", [row(8, 1, 21), row(8, 3, 23, day=EARLIER), FIRST[1]]),
        ("delete", [row(8, 1, 21), row(8, 3, 23, day=EARLIER)]),
    ],
)
def test_what_the_newest_snapshot_lacks_leaves_its_month(
    monthly: FeedOnStandIn, absent_dates: str, left: list[Row]
) -> None:
    """Also a date of a month whose other dates stay."""
    monthly.configure(table={"absent_keys": "delete", "absent_dates": absent_dates}, checks={"max_deleted_share": 1})
    record = monthly.publish(monthly.land(8, [row(8, 1, 21), row(8, 3, 23, day=EARLIER)]))
    assert monthly.rows() == expected(*left)
    rows = {f"{TODAY:%Y%m}": 1, f"{LAST_MONTH:%Y%m}": len(left) - 1}
    assert monthly.rows_by_partition() == monthly.rows_by_partition(monthly.feed.staging) == rows
    assert {check["level"] for check in monthly.state.checks(record.attempt, "after").values()} == {"pass"}


def test_a_month_goes_that_the_newest_snapshot_lacks(monthly: FeedOnStandIn) -> None:
    monthly.configure(table={"absent_keys": "delete", "absent_dates": "delete"}, checks={"max_missing_dates": 2})
    monthly.publish(monthly.land(8, [row(8, 1)]))
    assert monthly.rows() == expected(row(8, 1))
    assert monthly.rows_by_partition() == {f"{TODAY:%Y%m}": 1}


def test_in_mode_last_changed_unchanged_rows_keep_their_ids(world: FeedOnStandIn) -> None:
    world.configure(table={"partition_by": "month"}, update_id_mode="last_changed")
    world.publish(world.land(7, FIRST))
    world.publish(world.land(8, [row(8, 1), row(8, 3, 23, day=EARLIER)]))
    assert world.rows() == expected(row(7, 1), row(8, 3, 23, day=EARLIER), FIRST[1], FIRST[3])


def test_a_month_expires_by_its_first_day(world: FeedOnStandIn) -> None:
    """So dates that are within the retention, but share a month with one that is not, are dropped."""
    days = (TODAY - FIRST_OF_MONTH).days + 15  # since some day of last month that is not its first
    world.configure(table={"partition_by": "month", "retention_days": max(days, 31)})
    first = world.services.retention_window()[0]
    assert first.day == 1
    record = world.publish(world.land(7, [row(7, 1), row(7, 2, day=first), row(7, 3, day=first - timedelta(days=1))]))
    assert world.rows() == expected(*({(1, TODAY): row(7, 1), (2, first): row(7, 2, day=first)}.values()))
    assert record.rows == 2


@pytest.mark.parametrize("monthly", ["clone"], indirect=True)
def test_only_a_generation_with_files_is_restored_because_months_are_not_exported(monthly: FeedOnStandIn) -> None:
    for snapshot_id in (8, 9):
        monthly.publish(monthly.land(snapshot_id, [row(snapshot_id, 1), row(snapshot_id, 2, day=LAST_MONTH)]))
    operations.delete_obsolete(monthly)
    with pytest.raises(ConfigurationError, match=r"Generation \[1\] .* Choose one of: 3 .*, 2 "):
        monthly.roll_back(1)
    monthly.roll_back(2)
    monthly.publish(monthly.land(10, [row(10, 1)]))
    assert monthly.rows() == expected(row(10, 1), row(8, 2, day=LAST_MONTH), FIRST[2], FIRST[3])
    monthly.state.lose("data/")
    with pytest.raises(ContractViolation, match="months cannot be exported by day: roll back"):
        monthly.publish(monthly.land(11, [row(11, 1)]))


def test_the_partitioning_of_a_live_table_stays(monthly: FeedOnStandIn) -> None:
    monthly.configure(table={"partition_by": "day"})
    with pytest.raises(ConfigurationError, match=r"partition_by is \[day\], it was \[month\]"):
        monthly.publish(monthly.land(8, SECOND))
    with pytest.raises(ConfigurationError, match="a rebuild exports single days"):
        runs.rebuild(monthly).finish()
    monthly.configure(table={"partition_by": "month", "cluster_by": ["store_id"]})
    with pytest.raises(ConfigurationError, match="a rebuild exports single days"):
        runs.rebuild(monthly).finish()


def test_a_table_is_not_taken_over(maintained: FeedOnStandIn) -> None:
    maintained.configure(table={"partition_by": "month"})
    with pytest.raises((BootstrapRefused, ConfigurationError), match="a takeover exports single days"):
        runs.bootstrap(maintained).finish()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "bigquery"}, r"engine \[bigquery\] is not tried with partition_by \[month\]"),
        ({"engine": "cdc", "update_id_mode": "last_changed"}, r"engine \[cdc\] is not tried"),
        ({"table": {"retention_days": 30}}, r"keep at least \[31\] days"),
        ({"table": {"partition_by": "hour"}}, r"partition_by is \[hour\], but column \[date\] is a DATE"),
    ],
)
def test_what_cannot_work_is_refused_in_the_feed_file(
    world: FeedOnStandIn, changes: dict[str, object], message: str
) -> None:
    world.configure(table={"partition_by": "month"})
    with pytest.raises(ValidationError, match=message):
        world.configure(**changes)
