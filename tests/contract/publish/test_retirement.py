"""Retirement: a feed that nothing watches or publishes any more, and what is left of it."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.errors import ConfigurationError, JobFailed, LeaseHeld
from dedup_clone.publish.backfill.archived_snapshots import BackfillRequest, describe_backfill
from dedup_clone.publish.environments import take_over_feed
from dedup_clone.publish.records.status_table import STATUS_TABLE
from dedup_clone.publish.retirement import retire_feed as retire_feed_module
from dedup_clone.publish.retirement.preview_retirement import preview_retirement
from dedup_clone.state.feed_status import StatusRow, StatusRows
from dedup_clone.state.retired import TargetAction
from testkit.feed_on_stand_in import YESTERDAY, FeedOnStandIn, expected, row
from tests.contract.publish.operator_run import Run
from tests.contract.publish.retirement_steps import ROWS, exported_rows, kept, request, retire

NOW = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def published(world: FeedOnStandIn) -> FeedOnStandIn:
    world.publish(world.land(7, ROWS))
    world.land(8, [row(8, 1)])
    return world


def test_target_stays_as_it_is_and_the_rest_goes(published: FeedOnStandIn) -> None:
    StatusRows(published.services.store).write(StatusRow("other_feed", 1, 7, NOW, NOW))
    published.write_reporting_tables()
    record = retire(published, TargetAction.KEEP)
    assert published.rows() == expected(*ROWS)
    assert (record.generation, record.rows, record.reason) == (1, 3, "no longer needed")
    assert published.services.warehouse.table(published.feed.staging) is None
    assert kept(published) == ["RETIRED", "ledger"]
    published.write_reporting_tables()
    status = published.bigquery.query_and_wait(f"SELECT feed FROM warehouse.{STATUS_TABLE}")
    assert [r["feed"] for r in status] == ["other_feed"]


def test_an_exported_target_is_complete_before_it_is_dropped(published: FeedOnStandIn) -> None:
    record = retire(published, TargetAction.EXPORT)
    assert published.services.warehouse.table(published.feed.target) is None
    assert exported_rows(published, record) == expected(*ROWS)
    assert kept(published) == ["RETIRED", "data", "ledger"]


def test_a_retired_feed_is_not_published_and_the_error_says_how_to_use_it_again(
    published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    retire(published, TargetAction.KEEP)
    with pytest.raises(ConfigurationError, match=r"was retired at .* by run \[retire\].*delete .*RETIRED"):
        retire_feed_module.require_own_feed(published.services)
    with pytest.raises(ConfigurationError, match="was retired at"):
        preview_retirement(published.services, request(TargetAction.KEEP))
    with pytest.raises(ConfigurationError, match="was retired at"):
        describe_backfill(published.services, published.services.landing, BackfillRequest("gs://a/b", None, None, 1, 0))
    with pytest.raises(ConfigurationError, match="was retired at"):
        published.resolve_erasure("product_id\n1\n")
    with pytest.raises(AirflowFailException, match="was retired at"):  # not: snapshot 9 is not registered
        Run(published, monkeypatch, "by-hand").resolve(snapshot_id="9", reason="once more")


def test_a_retirement_that_stopped_half_way_goes_on(published: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object, **named: object) -> None:
        raise JobFailed("BigQuery is away", message="away", reason="backendError")

    monkeypatch.setattr(retire_feed_module, "export_partitions", fail)
    with pytest.raises(JobFailed):
        retire(published, TargetAction.EXPORT)
    assert published.rows() == expected(*ROWS)
    monkeypatch.undo()
    elsewhere = copy.copy(published)
    elsewhere.environment = "new.example.org"
    with pytest.raises(ConfigurationError, match="was retired at"):
        take_over_feed(elsewhere.services, "we move")
    retire(published, TargetAction.EXPORT)
    retire(published, TargetAction.EXPORT)
    assert kept(published) == ["RETIRED", "data", "ledger"]


def test_a_feed_at_work_is_not_retired(published: FeedOnStandIn) -> None:
    published.resolve(published.services.arrivals.deliveries()[-1].name, run_id="busy")
    published.running = {"busy"}
    with pytest.raises(LeaseHeld):
        retire(published, TargetAction.DROP)
    assert published.services.retired.read() is None


def test_a_feed_that_never_published_can_be_retired(world: FeedOnStandIn) -> None:
    assert retire(world, TargetAction.EXPORT).generation is None
    assert kept(world) == ["RETIRED"]


def test_a_table_that_no_generation_describes_is_neither_exported_nor_dropped(world: FeedOnStandIn) -> None:
    world.bigquery.query_and_wait(f"CREATE TABLE warehouse.{world.feed.target} AS SELECT 1 AS product_id")
    for action in (preview_retirement, retire_feed_module.retire_feed):
        with pytest.raises(ConfigurationError, match=r"no live generation.*choose \[keep\]"):
            action(world.services, request(TargetAction.EXPORT))
    assert world.services.retired.read() is None
    assert world.services.warehouse.table(world.feed.target) is not None


def test_rows_that_somebody_added_on_another_date_are_not_dropped_with_the_table(published: FeedOnStandIn) -> None:
    day = YESTERDAY - timedelta(days=30)
    values = ", ".join(f"DATE '{day}'" if n == "date" else "1" for n in row(7, 1))
    published.bigquery.query_and_wait(
        f"INSERT warehouse.{published.feed.target} ({', '.join(row(7, 1))}) VALUES ({values})"
    )
    with pytest.raises(ConfigurationError, match=rf"other rows than generation \[1\]: {day}: 1 rows, expected 0"):
        retire(published, TargetAction.EXPORT)
    assert published.services.warehouse.table(published.feed.target) is not None


def test_a_feed_whose_target_was_dropped_can_be_used_again_from_its_beginning(published: FeedOnStandIn) -> None:
    retire(published, TargetAction.DROP)
    assert published.services.warehouse.table(published.feed.target) is None
    published.services.store.delete_prefix(published.services.retired.name)
    published.publish(published.land(9, [row(9, 4)]))
    assert published.rows() == expected(row(9, 4))


def test_the_plan_names_what_happens_and_what_waits(published: FeedOnStandIn) -> None:
    waiting = published.services.arrivals.deliveries()[-1].name
    text = preview_retirement(published.services, request(TargetAction.DROP)).text
    assert "generation 1, snapshot 7, 3 rows" in text
    assert f"will not be published: {waiting}" in text
    assert "is **dropped**" in text
    assert "no longer be erased" not in text
    kept_text = preview_retirement(published.services, request(TargetAction.KEEP)).text
    assert "go on expiring after 730 days" in kept_text
    assert "Keys of a person can **no longer be erased**" in kept_text
