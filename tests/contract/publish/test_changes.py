"""The table `FEED_changes`: each publish's changes reach it once, whatever fails, and stop no publish."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from unittest.mock import Mock

import pytest
from google.api_core.exceptions import ServiceUnavailable
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.changes import FIXED_COLUMNS
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import AlertNotSent, ContractViolation
from dedup_clone.orchestration.watchdog import reporting
from dedup_clone.publish import commit
from dedup_clone.publish.prune import prune
from dedup_clone.publish.records import changes_table
from dedup_clone.publish.records.changes_table import FAILED_JOBS_BEFORE_SKIP, FIRST_PAUSE, LONGEST_PAUSE, load_changes
from dedup_clone.publish.records.late_rows import find_late_rows
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.publish.retirement.retire_feed import RetirementRequest, retire_feed
from dedup_clone.state.pending_changes import feeds_with_pending_changes
from dedup_clone.state.retired import TargetAction
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, Row, row
from tests.contract.feed_setups import setup_of
from tests.contract.new_feeds import new_feed
from tests.contract.publish.changes_rows import changes, ledger_figures, pending


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> Iterator[FeedOnStandIn]:
    """A feed with changes and one generation, which has none."""
    world = FeedOnStandIn(new_feed().model_copy(update={"changes": True}), *clients)
    assert publish(world, row(7, 1), row(7, 2, day=YESTERDAY)) is None
    yield world
    world.clear_faults()


def publish(world: FeedOnStandIn, *rows: Row) -> int | None:
    """Publish the rows as a snapshot, and return how many changes the ledger counts."""
    return world.publish(world.land(rows[0]["update_id"], list(rows))).change_rows


def fail_loads(world: FeedOnStandIn, times: int = 1000) -> None:
    fault = {"match": {"job_id": f"{world.feed.feed}-.*-changes-"}, "effect": "error", "reason": "backendError"}
    world.add_fault({**fault, "times": times})


def later(world: FeedOnStandIn, pause: timedelta) -> None:
    clock = world.now
    world.now = lambda: clock() + pause


def is_late(world: FeedOnStandIn) -> bool:
    return f"{world.feed.feed}_changes" in [late.table for late in find_late_rows(world.services)]


def jobs(world: FeedOnStandIn, generation: int) -> int:
    """How many jobs were made to load the generation's changes."""
    found = f"-{generation:08d}-"
    ids = [job.job_id for job in world.bigquery.list_jobs() if world.feed.feed in job.job_id]
    return sum("-changes-" in job_id and found in job_id for job_id in ids)


SECOND = (row(8, 1, 30), row(8, 3))
OF_SECOND = [(2, "changed", 1, 20, 30), (2, "new", 3, None, 20)]


def test_the_table_has_old_and_new_rows_and_expires(world: FeedOnStandIn) -> None:
    assert publish(world, *SECOND) == 2
    assert publish(world, row(9, 1, 30), row(9, 3)) == 0
    assert publish(world, row(10, 1, 31)) == 1
    assert changes(world) == [*OF_SECOND, (4, "changed", 1, 30, 31)]
    table = world.bigquery.get_table(f"warehouse.{world.feed.feed}_changes")
    assert {f.name for f in table.schema} == {*FIXED_COLUMNS, *world.feed.table.keys}
    assert all(f.description for f in table.schema if f.name in FIXED_COLUMNS)
    assert (table.time_partitioning.field, table.clustering_fields) == ("publish_date", ["generation"])
    assert table.time_partitioning.expiration_ms == timedelta(days=60) / timedelta(milliseconds=1)
    assert not list(world.services.store.objects(world.services.layout.changes))
    world.feed = world.feed.model_copy(update={"changes_days": 7})
    publish(world, row(11, 1, 32))
    facts = world.services.warehouse.table(world.services.names.changes_table)
    assert facts
    assert facts.expiration_days == 7


def test_a_load_that_fails_stops_no_publish_and_is_made_good_in_order(world: FeedOnStandIn) -> None:
    fail_loads(world)
    assert publish(world, *SECOND) == 2
    assert publish(world, row(9, 1, 31)) == 1
    assert publish(world, row(10, 1, 32)) == 1
    prune(world.services)
    assert pending(world) == [2, 3, 4]
    world.clear_faults()
    later(world, FIRST_PAUSE)
    load_changes(world.services)
    assert changes(world) == [*OF_SECOND, (3, "changed", 1, 30, 31), (4, "changed", 1, 31, 32)]
    assert pending(world) == []


def test_a_load_that_always_fails_is_tried_ever_less_often_and_keeps_no_later_generation(world: FeedOnStandIn) -> None:
    world.add_fault({"match": {"job_id": f"{world.feed.feed}-00000002-.*-changes-"}, "effect": "error", "times": 1000})
    publish(world, *SECOND)
    publish(world, row(9, 1, 31))
    tries = []
    for minutes in range(5, 65, 5):  # the first job failed at minute 0, and so do the others for the stand-in's clock
        before = jobs(world, 2)
        later(world, timedelta(minutes=5))
        load_changes(world.services)
        tries += [minutes] if jobs(world, 2) > before else []
    assert tries == [5, 10, 20, 40]
    assert changes(world) == [(3, "changed", 1, 30, 31)]
    assert not is_late(world)
    later(world, LONGEST_PAUSE)
    assert is_late(world)
    world.clear_faults()
    load_changes(world.services)
    assert changes(world) == [*OF_SECOND, (3, "changed", 1, 30, 31)]
    assert not is_late(world)


@pytest.mark.exhaustive
def test_changes_of_another_form_than_later_ones_are_given_up(world: FeedOnStandIn) -> None:
    fail_loads(world)
    publish(world, *SECOND)
    for _ in range(FAILED_JOBS_BEFORE_SKIP - 1):
        later(world, LONGEST_PAUSE)
        load_changes(world.services)
    world.clear_faults()
    name, column = f"warehouse.{world.feed.feed}_changes", "date DATE, product_id STRING"
    world.bigquery.query_and_wait(f"DROP TABLE {name}")
    world.bigquery.query_and_wait(
        f"CREATE TABLE {name} (publish_date DATE, {column}, new_row STRUCT<{column}>) PARTITION BY publish_date"
    )
    later(world, LONGEST_PAUSE)
    load_changes(world.services)
    assert pending(world) == []
    assert len(world.bigquery.get_table(name).schema) == 4  # not dropped


@pytest.mark.parametrize(
    "dies_in",
    [
        "_load",
        *(
            pytest.param(n, marks=pytest.mark.exhaustive)
            for n in ("record_changes", "published_record", "load_changes")
        ),
    ],
)
def test_whoever_dies_the_rows_are_loaded_once(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, dies_in: str
) -> None:
    """`_load` dies after its job, `record_changes` after its record, before the commit."""
    spec, checked = world.publish_to_check(world.land(8, list(SECOND)))
    world.swap(spec, checked)

    def die(*arguments: object) -> None:
        if dies_in in ("_load", "record_changes"):
            original(*arguments)
        raise SystemExit

    module = commit if dies_in in ("record_changes", "published_record") else changes_table
    original = getattr(module, dies_in)
    with monkeypatch.context() as patch:
        patch.setattr(module, dies_in, die)
        with pytest.raises(SystemExit):
            world.commit(spec)
    load_changes(world.services)  # as the watchdog does
    intent = world.services.current.read().intent
    if intent:
        assert commit_or_discard(world.services, intent)
    assert changes(world) == OF_SECOND
    assert publish(world, row(9, 1, 31)) == 1
    assert changes(world) == [*OF_SECOND, (3, "changed", 1, 30, 31)]


def test_the_watchdog_loads_what_is_missing_although_other_feeds_and_tables_fail(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_loads(world, times=1)
    publish(world, *SECOND)
    later(world, FIRST_PAUSE)
    assert feeds_with_pending_changes(world.services.store) == [world.feed.feed]
    reader, setup = world.services, setup_of(world)
    monkeypatch.setattr(reader.current, "read", Mock(side_effect=ContractViolation("CURRENT is damaged")))
    services = iter([world.services, reader, world.services])  # of the reporting tables, of a damaged feed, of this one
    monkeypatch.setattr(reporting, "open_feed_services", lambda setup: next(services))
    monkeypatch.setattr(reporting, "read_feed_setup", lambda *_: setup)
    monkeypatch.setattr(reporting, "feeds_with_pending_changes", lambda _: ["damaged", world.feed.feed])
    monkeypatch.setattr(reporting, "write_reporting_tables", Mock(side_effect=ServiceUnavailable("BigQuery")))
    monkeypatch.setattr(reporting, "report_late_rows", Mock(side_effect=AlertNotSent("no receiver answers")))
    log = Mock()
    monkeypatch.setattr(reporting, "log", log)
    with pytest.raises(ServiceUnavailable):
        reporting.load_waiting_rows(setup)
    assert "not sent" in log.error.call_args.args[0]
    assert [call.args[1:3] for call in log.warning.call_args_list] == [("damaged", "ContractViolation")]
    assert changes(world) == OF_SECOND
    assert feeds_with_pending_changes(world.services.store) == []


@pytest.mark.exhaustive
def test_changes_that_were_not_loaded_in_time_are_dropped(world: FeedOnStandIn) -> None:
    fail_loads(world)
    publish(world, *SECOND)
    world.clear_faults()
    now = world.now()
    world.now = lambda: now + timedelta(days=61)
    load_changes(world.services)
    assert pending(world) == []
    assert not list(world.services.store.objects(world.services.layout.changes))
    assert changes(world) == []
    assert ledger_figures(world) == [(1, None), (2, None)]


def test_after_a_rollback_the_next_publish_adds_the_changes_since_the_rollback(world: FeedOnStandIn) -> None:
    publish(world, *SECOND)
    assert world.roll_back(1).change_rows is None
    assert publish(world, row(9, 1, 33), row(9, 3)) == 2
    assert changes(world) == [*OF_SECOND, (4, "changed", 1, 20, 33), (4, "new", 3, None, 20)]


@pytest.mark.exhaustive
def test_a_rollback_an_engine_in_sql_and_a_discarded_attempt_add_none(world: FeedOnStandIn) -> None:
    publish(world, *SECOND)
    assert world.roll_back(1).change_rows is None
    name = world.land(9, [row(9, 1, 33)])
    assert world.publish(name, replay=True, engine=Engine.BIGQUERY, reason="test").change_rows is None
    spec, _ = world.publish_to_check(world.land(10, [row(10, 1, 34)]))
    assert list(world.services.store.objects(world.services.layout.changes_folder(spec.attempt)))
    commit_or_discard(world.services, world.services.current.require_intent(spec.attempt))
    assert not list(world.services.store.objects(world.services.layout.changes))
    assert changes(world) == OF_SECOND


@pytest.mark.exhaustive
def test_new_columns_are_added_and_a_table_of_other_types_is_made_anew(world: FeedOnStandIn) -> None:
    name = f"warehouse.{world.feed.feed}_changes"
    fields = "date DATE, product_id INT64, store_id INT64, attribute_id INT64"
    own = (
        "publish_date DATE NOT NULL, generation INT64 NOT NULL, snapshot_id INT64 NOT NULL, change_type STRING NOT NULL"
    )

    def create(columns: str, generation: int) -> None:
        world.bigquery.query_and_wait(f"DROP TABLE IF EXISTS {name}")
        world.bigquery.query_and_wait(
            f"CREATE TABLE {name} ({own}, {columns}, old_row STRUCT<{columns}>, new_row STRUCT<{columns}>) "
            f"PARTITION BY publish_date CLUSTER BY generation"
        )
        values = f"DATE '{TODAY}', {generation}, 7, 'new'"
        world.bigquery.query_and_wait(
            f"INSERT INTO {name} (publish_date, generation, snapshot_id, change_type) VALUES ({values})"
        )

    create(fields, 1)
    publish(world, *SECOND)
    found = world.bigquery.query_and_wait(f"SELECT generation, new_row.attr_value AS v FROM {name} ORDER BY 1, 2")
    assert [tuple(r.values()) for r in found] == [(1, None), (2, 20), (2, 30)]
    create(fields.replace("store_id INT64", "store_id STRING"), 2)
    publish(world, row(9, 1, 31))
    assert changes(world) == [(3, "changed", 1, 30, 31)]
    assert ledger_figures(world) == [(1, None), (2, None), (3, 1)]


@pytest.mark.exhaustive
def test_a_retired_feed_leaves_no_changes(world: FeedOnStandIn) -> None:
    fail_loads(world, times=1)
    publish(world, *SECOND)
    world.services.warehouse.alterations.drop(world.services.names.changes_table)
    changes_table.prepare_changes_table(world.services, world.feed.table.to_contract())
    retire_feed(world.services, RetirementRequest("feed_retire", "retire", TargetAction.KEEP, "test"))
    assert pending(world) == []
    assert world.services.warehouse.table(world.services.names.changes_table) is None


@pytest.mark.exhaustive
def test_changes_of_a_target_with_policies_are_not_shown(world: FeedOnStandIn) -> None:
    spec, checked = world.publish_to_check(world.land(8, list(SECOND)))
    world.swap(spec, checked)
    world.bigquery.query_and_wait(
        f"CREATE ROW ACCESS POLICY only_one ON warehouse.{world.feed.target} "
        f"GRANT TO ('user:reader@example.com') FILTER USING (product_id = 1)"
    )
    world.commit(spec)
    assert pending(world) == [2]
    assert world.services.warehouse.table(world.services.names.changes_table) is None
