"""Engine `cdc` with `publish: direct`: rows go into target, and whatever dies, the table becomes the oracle's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from dedup_clone.audit.fingerprint_target import _live_target
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ContractViolation, LostRace
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.freshness.evaluation import evaluate
from dedup_clone.orchestration.shared import bigquery_operators
from dedup_clone.orchestration.shared.bigquery_operators import LoadStagingOperator
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.publish.rollback.resolve_rollback import find_restorable
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.check_settings import SqlCheck
from dedup_clone.settings.feed import CdcSettings, Feed
from dedup_clone.warehouse.change_data_capture import ChangeDataCapture
from testkit.feed_on_stand_in import row
from testkit.table_contracts import PRODUCTS
from tests.contract.engines.streamed_feed import (
    Clients,
    Killed,
    StreamedFeed,
    feed_with,
    killed_load,
    load_jobs,
    snapshot,
)
from tests.contract.feed_setups import setup_of
from tests.contract.feed_state_reader import read_state


@pytest.fixture
def world(streaming_clients: Clients) -> StreamedFeed:
    """A feed with one published generation."""
    feed = feed_with(streaming_clients, PRODUCTS, publish="direct")
    feed.publish_expected(1, snapshot(1))
    return feed


def discard(world: StreamedFeed) -> None:
    intent = world.services.current.read().intent
    assert intent
    commit_or_discard(world.services, intent)


def finish(world: StreamedFeed, spec: PublishSpec) -> None:
    world.load(spec)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    world.assert_equal(world.expected)


def test_readers_see_applied_rows_before_the_commit_which_then_labels_the_table(world: StreamedFeed) -> None:
    before = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    spec = world.resolve(world.land_expected(2, snapshot(2)))
    world.deduplicate(spec)
    world.load(spec)
    assert world.table_rows() == world.expected.table_rows()
    assert world.live() == "1"
    world.swap(spec, world.check(spec))
    record = world.commit(spec)
    world.assert_equal(world.expected)
    assert record.is_direct
    assert record.cost
    assert record.cost.streamed_bytes > 0
    assert record.swapped_at
    assert record.lag_s is not None
    assert record.swapped_at > before.created
    after = world.bigquery.get_table(f"warehouse.{world.feed.target}")
    assert after.created == before.created  # it was not replaced
    assert world.live() == "2"
    third = world.publish_expected(3, snapshot(3))
    assert third.is_direct
    assert not load_jobs(world, third)


def test_the_load_task_names_target_as_what_it_writes(world: StreamedFeed, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = world.resolve(world.land_expected(2, snapshot(2)))
    world.deduplicate(spec)
    monkeypatch.setattr(bigquery_operators, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(bigquery_operators, "pull_spec", lambda context: spec)
    task: Any = LoadStagingOperator(task_id="load_staging", setup=setup_of(world))
    with pytest.raises(TaskDeferred):
        task.execute({})
    _, (written,) = task.datasets(Engine.CDC)
    assert written.name.endswith(f".{world.feed.target}")


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", [Engine.SPARK, Engine.CDC, Engine.MERGE])
def test_what_follows_a_direct_publish_finds_staging_behind(world: StreamedFeed, by: Engine) -> None:
    world.publish_expected(2, snapshot(2))
    if by is Engine.MERGE:
        changes = {"update_id_mode": UpdateIdMode.LAST_SEEN, "engine": by}
        world.expected.last_changed = False
    else:
        changes = {"engine": by, "cdc": CdcSettings(max_changed_share=1.0)}
    world.feed = world.feed.model_copy(update=changes)
    record = world.publish_expected(3, snapshot(3))
    assert not record.is_direct
    assert world.table_rows(world.feed.staging) == world.expected.table_rows()


@pytest.mark.exhaustive
def test_a_rollback_to_a_direct_generation_loads_its_files_and_one_before_it_clones(world: StreamedFeed) -> None:
    first = world.expected
    world.publish_expected(2, snapshot(2))
    second = world.expected
    world.publish_expected(3, snapshot(3))
    assert find_restorable(world.services, 2).restored_at is None
    assert find_restorable(world.services, 1).restored_at is not None
    world.roll_back(2)
    assert world.table_rows() == second.table_rows()
    world.roll_back(1, run_id="further")
    assert world.table_rows() == first.table_rows()
    world.expected = first
    assert not world.services.staging.read().target_is_mixed(world.services.current.read().generation)  # type: ignore[union-attr]
    world.publish_expected(4, snapshot(4))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("rows", "applied"), [(1, False), (99, True)])
def test_a_killed_writer_begins_again(world: StreamedFeed, rows: int, applied: bool) -> None:
    spec = killed_load(world, world.land_expected(2, snapshot(2)), rows)
    if applied:
        world.wait_for_changes()
    finish(world, spec)
    world.publish_expected(3, snapshot(3))


@pytest.mark.exhaustive
def test_a_writer_that_died_before_its_first_row_begins_again(world: StreamedFeed) -> None:
    def dies(*arguments: Any) -> None:
        raise Killed

    spec = world.resolve(world.land_expected(2, snapshot(2)))
    world.deduplicate(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChangeDataCapture, "open_stream", dies)
        with pytest.raises(Killed):
            world.load(spec)
    finish(world, spec)


@pytest.mark.parametrize(("rows", "applied"), [(1, True), pytest.param(99, False, marks=pytest.mark.exhaustive)])
def test_an_attempt_that_died_while_target_changed_is_replaced_as_a_whole(
    world: StreamedFeed, rows: int, applied: bool
) -> None:
    """Its delivery is corrected meanwhile, and lacks a row that readers saw."""
    parent = world.expected
    spec = killed_load(world, world.land(2, [*snapshot(2), row(2, 77)]), rows)
    if applied:
        world.wait_for_changes()
    discard(world)
    assert (world.table_rows() == parent.table_rows()) != applied
    with pytest.raises(LostRace, match=rf"\[{spec.attempt}\] streams rows into target"):
        _live_target(world.services)
    record = world.publish_expected(2, snapshot(2))
    assert not record.is_direct
    assert load_jobs(world, record)
    _live_target(world.services)
    world.wait_for_changes()
    assert world.publish_expected(3, snapshot(3)).is_direct


@pytest.mark.parametrize(
    "moment",
    [pytest.param("load", marks=pytest.mark.exhaustive), pytest.param("check", marks=pytest.mark.exhaustive), "swap"],
)
def test_an_attempt_that_died_after_the_last_acknowledgement(world: StreamedFeed, moment: str) -> None:
    spec = world.resolve(world.land_expected(2, snapshot(2)))
    world.deduplicate(spec)
    world.load(spec)
    if moment != "load":
        checked = world.check(spec)
    if moment == "swap":
        world.swap(spec, checked)
    discard(world)
    assert (world.live() == "2") == (moment == "swap")
    if moment == "swap":
        world.assert_equal(world.expected)
    else:
        name = next(d.name for d in world.services.arrivals.deliveries() if d.snapshot_id == 2)
        world.publish(name)
        world.assert_equal(world.expected)
    world.publish_expected(3, snapshot(3))


@pytest.mark.exhaustive
def test_staging_with_rows_of_a_dead_attempt_is_made_anew_before_a_direct_publish(world: StreamedFeed) -> None:
    direct, settings = world.feed, world.feed.cdc.model_copy(update={"publish": "staging"})
    world.feed = direct.model_copy(update={"cdc": settings})
    killed_load(world, world.land(2, [*snapshot(2), row(2, 77)]), 99)
    discard(world)
    world.feed = direct
    record = world.publish_expected(2, snapshot(2))
    assert not record.is_direct
    world.wait_for_changes()
    assert world.table_rows(world.feed.staging) == world.expected.table_rows()


def test_an_engine_in_sql_does_not_read_a_target_with_rows_of_a_dead_attempt(world: StreamedFeed) -> None:
    name = world.land_expected(2, snapshot(2))
    killed_load(world, name, 1)
    discard(world)
    world.feed = world.feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_SEEN, "engine": Engine.BIGQUERY})
    with pytest.raises(ContractViolation, match=r"streamed into it and did not commit"):
        world.resolve(name)


def test_a_later_publish_that_fails_does_not_hide_the_rows_of_a_dead_attempt(world: StreamedFeed) -> None:
    name = world.land(2, [*snapshot(2), row(2, 77)])
    killed_load(world, name, 1)
    discard(world)
    spec = world.resolve(name)
    world.deduplicate(spec)
    world.load(spec)  # a load job fills staging
    discard(world)
    live = world.services.current.read().generation
    assert world.services.staging.read().target_is_mixed(live)  # type: ignore[union-attr]
    with pytest.raises(LostRace, match="streams rows into target"):
        _live_target(world.services)
    world.publish(name)
    assert not world.services.staging.read().target_is_mixed(world.services.current.read().generation)  # type: ignore[union-attr]


@pytest.mark.parametrize("statement", ["INSERT INTO {} SELECT * REPLACE (99 AS product_id) FROM {} LIMIT 1"])
def test_a_target_that_others_changed_is_replaced_as_a_whole(world: StreamedFeed, statement: str) -> None:
    table = f"warehouse.{world.feed.target}"
    world.bigquery.query_and_wait(statement.format(table, table))
    assert not world.publish_expected(2, snapshot(2)).is_direct


@pytest.mark.parametrize(
    "change",
    [
        lambda feed: {"cdc": feed.cdc.model_copy(update={"max_changed_share": 0.1})},
        lambda feed: {"checks": feed.checks.model_copy(update={"max_new_share": 0.1})},
    ],
    ids=["share", "check"],
)
def test_what_a_check_would_stop_goes_through_staging(
    world: StreamedFeed, change: Callable[[Feed], dict[str, Any]]
) -> None:
    before = world.expected.table_rows()
    world.feed = world.feed.model_copy(update=change(world.feed))
    name = world.land_expected(2, snapshot(2))
    if "checks" in change(world.feed):  # as ever, it stops the publish before readers see anything
        with pytest.raises(CheckFailed, match="new_share"):
            world.publish(name)
        assert world.table_rows() == before
    else:
        assert not world.publish(name).is_direct


def test_a_failed_check_of_target_says_that_readers_see_rows_already(world: StreamedFeed) -> None:
    name = world.land_expected(2, snapshot(2))
    spec = world.resolve(name)
    world.deduplicate(spec)
    world.load(spec)
    late = world.services.warehouse.cdc.open_stream(world.feed.target, world.table.columns)
    late.append(row(2, 77), "2/2/1")
    late.finish()
    late.close()
    world.wait_for_changes()
    with pytest.raises(CheckFailed, match=r"Readers see rows of this generation already(.|\n)*staging_rows"):
        world.check(spec)
    discard(world)
    state = read_state(world.services)
    assert state.target_is_mixed
    headline = evaluate(world.services.now(), state).headline
    assert " and perhaps some rows of the next; 1 more waits, stopped: staging_rows: " in headline
    world.publish(name, engine=Engine.SPARK)
    world.assert_equal(world.expected)
    assert not read_state(world.services).target_is_mixed


def test_direct_is_refused_with_checks_that_query_staging(world: StreamedFeed) -> None:
    settings = world.feed.model_dump()
    settings["checks"]["sql"] = (SqlCheck(name="own").model_dump(),)
    with pytest.raises(ValueError, match=r"cdc.publish is \[direct\]"):
        Feed.model_validate(settings)
