"""Audits of a published feed on a real object store and the stand-in: what they find, cost and keep."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from dedup_clone.contract.errors import CheckFailed, ConfigurationError, ContractViolation, LostRace
from dedup_clone.state.audits import read_audits
from testkit import operations, runs, step_faults
from testkit.feed_on_stand_in import TODAY, FeedOnStandIn, row
from testkit.operations import audit

DAYS = [TODAY - timedelta(days=n) for n in range(3)]
ROWS = [row(7, product, day=day) for day in DAYS for product in range(4)]
MIN_BILLED = 20 << 20  # what BigQuery bills at least for a query of two tables


def change_target(world: FeedOnStandIn, statement: str) -> None:
    world.bigquery.query_and_wait(statement.format(target=f"warehouse.{world.feed.target}", day=f"DATE '{DAYS[0]}'"))


def unequal(world: FeedOnStandIn) -> list[str]:
    return [record.date.isoformat() for record in read_audits(world.services.store, world.feed.feed).unequal]


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    world.publish(world.land(7, ROWS))
    return world


def test_equal_partitions_are_kept_and_shown_on_the_page_with_rows_that_older_snapshots_left(
    published: FeedOnStandIn,
) -> None:
    assert audit(published, str(TODAY)) == [(str(TODAY), 1)]
    published.publish(published.land(8, [row(8, 1, 99), row(8, 50)]))
    assert audit(published, str(TODAY), run_id="second") == [(str(TODAY), 2)]
    (record,) = published.state.read("AUDITS")["records"]
    assert record["comparison"]["rows"] == 5
    shown = operations.page(published)["audit"]
    assert (shown["date"], shown["unequal_dates"]) == (str(TODAY), [])
    assert operations.incident_names(published) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE {target} SET attr_value = 21 WHERE date = {day} AND product_id = 2",
        "DELETE FROM {target} WHERE date = {day} AND product_id = 2",
        "UPDATE {target} SET attr_value = NULL WHERE date = {day} AND product_id = 2",
        "INSERT INTO {target} SELECT * FROM {target} WHERE date = {day} AND product_id = 2",
    ],
)
def test_what_is_wrong_in_bigquery_is_reported_until_it_is_right(published: FeedOnStandIn, statement: str) -> None:
    change_target(published, statement)
    with pytest.raises(CheckFailed):
        audit(published)
    assert unequal(published) == [str(TODAY)]
    assert operations.page(published)["audit"]["unequal_dates"] == [str(TODAY)]
    assert f"content_unequal-{TODAY}" in operations.incident_names(published)
    published.configure(content_audit={"bytes_per_day": 10 << 20})
    with pytest.raises(CheckFailed):
        audit(published, run_id="over-budget")
    assert unequal(published) == [str(TODAY)], "it was not compared again"
    published.configure(content_audit={"bytes_per_day": 1 << 40})
    published.publish(published.state.deliveries("arrivals")[0], replay=True, run_id="replay", reason="unequal")
    assert audit(published, run_id="again") == [(str(TODAY), 2)]  # it is its turn again
    assert operations.incident_names(published) == []


def test_an_unequal_partition_that_leaves_the_table_is_reported_no_more(published: FeedOnStandIn) -> None:
    change_target(published, "DELETE FROM {target} WHERE date = {day} AND product_id = 2")
    with pytest.raises(CheckFailed):
        audit(published)
    assert f"content_unequal-{TODAY}" in operations.incident_names(published)
    deletes = {"absent_keys": "delete", "absent_dates": "delete"}
    published.configure(table=deletes, checks={"max_missing_dates": 3, "max_deleted_share": 1})
    published.publish(published.land(8, [row(8, product, day=DAYS[1]) for product in range(4)]))
    assert operations.incident_names(published) == []
    assert operations.page(published)["audit"] is None


def test_as_many_partitions_a_day_as_the_feed_says_take_turns(published: FeedOnStandIn) -> None:
    published.configure(content_audit={"partitions_per_day": 2})
    found = [[date for date, _ in audit(published, run_id=f"audit-{n}")] for n in range(2)]
    assert found == [[str(DAYS[0]), str(DAYS[1])], [str(DAYS[2]), str(DAYS[0])]]


@pytest.mark.parametrize("day", ["yesterday", str(TODAY + timedelta(days=1))])
def test_a_date_that_cannot_be_audited_is_refused(published: FeedOnStandIn, day: str) -> None:
    with pytest.raises(ConfigurationError):
        audit(published, day)


def test_a_day_costs_no_more_than_its_budget_of_which_each_job_is_told_what_is_left(published: FeedOnStandIn) -> None:
    published.configure(content_audit={"partitions_per_day": 3, "bytes_per_day": 2 * MIN_BILLED})
    assert len(audit(published)) == 2
    billed = published.state.read("AUDITS")["jobs"]
    assert sum(billed.values()) == 2 * MIN_BILLED
    limits = {published.bigquery.get_job(job_id).maximum_bytes_billed for job_id in billed}
    assert limits == {2 * MIN_BILLED, MIN_BILLED}
    with pytest.raises(CheckFailed):
        audit(published, run_id="audit-2")
    clock = published.now
    published.now = lambda: clock() + timedelta(days=1)
    assert len(audit(published, run_id="audit-3")) == 2


def test_partitions_larger_than_a_days_budget_are_skipped(published: FeedOnStandIn) -> None:
    published.configure(content_audit={"bytes_per_day": MIN_BILLED - 1})
    with pytest.raises(CheckFailed, match=f"the partitions need: {DAYS[0]}: {MIN_BILLED}, "):
        audit(published)
    assert published.state.find("AUDITS") is None


def test_a_publish_in_between_is_noticed_and_the_next_try_asks_again(published: FeedOnStandIn) -> None:
    name = published.land(8, [row(8, 1, 99)])
    with step_faults.after_first_query(lambda: published.publish(name)), pytest.raises(LostRace):
        audit(published)
    assert audit(published) == [(str(TODAY), 2)]
    assert len(published.state.read("AUDITS")["jobs"]) == 2


def test_nothing_is_asked_while_a_swap_is_not_committed(published: FeedOnStandIn) -> None:
    publish = runs.publish(published, published.land(8, [row(8, 1, 99)])).until("swap")
    with pytest.raises(LostRace):
        audit(published)
    publish.finish()
    assert audit(published) == [(str(TODAY), 2)]


def test_a_retried_task_uses_its_job_unless_target_was_made_anew(published: FeedOnStandIn) -> None:
    for _ in range(2):
        assert audit(published, str(TODAY)) == [(str(TODAY), 1)]
        assert len(published.state.read("AUDITS")["jobs"]) == 1
    target, staging = f"warehouse.{published.feed.target}", f"warehouse.{published.feed.staging}"
    labels = ", ".join(f"{label}" for label in published.bigquery.get_table(target).labels.items())
    published.bigquery.query_and_wait(f"DELETE FROM {staging} WHERE date = '{TODAY}' AND product_id = 2")
    published.bigquery.query_and_wait(f"CREATE OR REPLACE TABLE {target} CLONE {staging} OPTIONS (labels = [{labels}])")
    with pytest.raises(CheckFailed, match="3 rows, expected 4; 1 expected rows are missing, 0 rows"):
        audit(published, str(TODAY))


def test_a_cleared_run_compares_again(published: FeedOnStandIn) -> None:
    """Its former result says nothing of what somebody has changed since."""
    assert audit(published, str(TODAY)) == [(str(TODAY), 1)]
    change_target(published, "DELETE FROM {target} WHERE date = {day} AND product_id = 2")
    with pytest.raises(CheckFailed, match="1 expected rows are missing"):
        audit(published, str(TODAY), clears=1)


def test_the_generation_of_a_rollback_is_compared_with_the_files_that_it_restored(published: FeedOnStandIn) -> None:
    published.publish(published.land(8, [row(8, 1, 99)]))
    published.roll_back(1)
    assert audit(published, str(TODAY)) == [(str(TODAY), 3)]


def prune(world: FeedOnStandIn) -> None:
    world.state.lose("data/")


def damage(world: FeedOnStandIn) -> None:
    world.state.damage("data/")


@pytest.mark.parametrize("accident", [prune, damage])
def test_files_that_cannot_be_read_end_the_run_at_once_and_are_not_called_unequal(
    published: FeedOnStandIn, accident: Callable[[FeedOnStandIn], None]
) -> None:
    accident(published)
    with pytest.raises(ContractViolation, match=r"cannot read the published files of .*\.parquet"):
        audit(published)
    assert published.state.find("AUDITS") is None


def an_engine_without_files(world: FeedOnStandIn) -> None:
    world.configure(engine="bigquery")
    world.publish(world.land(7, ROWS))


def a_row_policy(world: FeedOnStandIn) -> None:
    world.publish(world.land(7, ROWS))
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY own ON warehouse.{world.feed.target} GRANT TO ('user:a@example.com') "
        "FILTER USING (store_id = 1)"
    )


def only_ending_partitions(world: FeedOnStandIn) -> None:
    world.configure(table={"retention_days": 2})
    world.publish(world.land(7, ROWS[:4]))


def another_environment(world: FeedOnStandIn) -> None:
    """It audits the feed, too, from the same budget."""
    world.publish(world.land(7, ROWS))
    world.environment = "new.example.org"


CASES = [lambda world: None, an_engine_without_files, a_row_policy, only_ending_partitions, another_environment]


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_can_compare_nothing_is_skipped(world: FeedOnStandIn, case: Callable[[FeedOnStandIn], None]) -> None:
    case(world)
    with pytest.raises(AirflowSkipException):
        audit(world)
