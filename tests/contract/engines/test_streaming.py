"""Engine `cdc` with Google's client and the stand-in: the table is the oracle's, whatever dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from functools import partial
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from airflow.sdk.exceptions import TaskDeferred
from google.api_core.exceptions import PreconditionFailed
from google.cloud.bigquery_storage_v1 import BigQueryWriteClient

from dedup_clone.contract.engine import Engine, SqlForm
from dedup_clone.contract.errors import CheckFailed, DeliveryRefused, JobFailed, LostRace
from dedup_clone.contract.table import Column, UpdateIdMode
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.settings.feed import CdcSettings
from testkit import operations, runs, step_faults
from testkit.airflow import TaskApi
from testkit.dag_tasks import DagTasks
from testkit.dedup_job import Row
from testkit.feed_against_oracle import FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import TODAY, YESTERDAY, row
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.killed_writes import asleep_before_write
from testkit.oracle import OracleDelivery, OracleState
from testkit.table_contracts import PRODUCTS
from tests.contract.engines.streamed_feed import (
    OLDEST,
    Clients,
    StreamedFeed,
    feed_with,
    killed_load,
    load_jobs,
    load_until_killed,
    snapshot,
    staging_state,
)
from tests.thoroughness import seeds

STALENESS = timedelta(minutes=15)


@pytest.fixture
def world(streaming_clients: Clients) -> StreamedFeed:
    """A feed with one published generation."""
    world = feed_with(streaming_clients, PRODUCTS)
    world.publish_expected(1, snapshot(1))
    return world


def test_only_the_changed_rows_are_streamed(world: StreamedFeed) -> None:
    (first,) = world.state.ledger()
    assert first["cost"]["streamed_bytes"] == 0
    second = world.publish_expected(2, snapshot(2))
    assert not load_jobs(world, second)
    assert second.cost
    assert 0 < second.cost.streamed_bytes < 2 * 100
    assert second.cost.stream_usd > 0
    assert second.phases["load"] > 0
    assert [job for job in world.bigquery.list_jobs(all_users=True) if "cdc_background" in job.job_id]
    world.publish_expected(3, snapshot(3))
    unchanged = world.publish_expected(4, [{**r, "update_id": 4} for r in snapshot(3)])
    assert unchanged.cost
    assert unchanged.cost.streamed_bytes == 0
    assert not load_jobs(world, unchanged)


@pytest.mark.parametrize("seed", seeds(1))
def test_rows_of_every_type_arrive_as_they_are(streaming_clients: Clients, seed: int) -> None:
    """The messages of rows of every type are in tests/unit/warehouse/test_row_messages.py."""
    random = Random(seed)
    table = random_table(random, floats_in_arrays=True)
    world = feed_with(streaming_clients, table)
    history = GeneratedHistory(table, random, TODAY - timedelta(days=4), repeat=0.2)
    streamed = 0
    for number in range(1, 4):
        record = world.publish_expected(number, history.snapshot(number))
        assert record.cost
        streamed += record.cost.streamed_bytes
    assert streamed


def test_the_load_task_waits_deferred_until_bigquery_has_applied_the_rows(
    world: StreamedFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.publish(world, world.land_expected(2, snapshot(2)), run_id="run-a").until("dedup")
    tasks = DagTasks(world, TaskApi(monkeypatch), monkeypatch, "publish", "run-a")
    tasks.has_taken(run.plan)
    with pytest.raises(TaskDeferred) as deferred:
        tasks.execute("load_staging")
    assert staging_state(world) == ("loading", True)
    world.wait_for_changes()
    tasks.resume("load_staging", deferred.value.method_name)
    assert staging_state(world) == ("loaded", False)
    world.finish(run)


def test_too_many_changes_are_loaded_instead(streaming_clients: Clients) -> None:
    world = feed_with(streaming_clients, PRODUCTS, max_changed_share=0.4)
    world.publish_expected(1, snapshot(1))
    loaded = world.publish_expected(2, snapshot(2))  # 2 of 4 rows
    streamed = world.publish_expected(3, snapshot(3))  # 2 of 5
    assert [bool(load_jobs(world, record)) for record in (loaded, streamed)] == [True, False]


def test_a_publish_that_adds_and_widens_columns_loads_and_the_next_one_streams_into_them(world: StreamedFeed) -> None:
    columns = [replace(c, type="NUMERIC") if c.name == "attr_value" else c for c in PRODUCTS.columns]
    world.declare(replace(PRODUCTS, columns=(*columns, Column("size", "INT64"))))
    known = {key: {**known_row, "size": None} for key, known_row in world.expected.rows.items()}
    world.expected = OracleState(world.oracle_table, last_changed=True, rows=known)

    def wider(number: int) -> list[Row]:
        return [{**r, "attr_value": Decimal(r["attr_value"]) / 4, "size": number} for r in snapshot(number)]

    assert load_jobs(world, world.publish_expected(3, wider(3)))
    assert not load_jobs(world, world.publish_expected(4, wider(4)))


def test_a_rollback_and_what_follows_it(world: StreamedFeed) -> None:
    first = world.expected
    world.publish_expected(2, snapshot(2))
    world.roll_back(1)
    world.expected = first
    assert world.table_rows() == first.table_rows()
    world.publish_expected(4, snapshot(4))
    world.publish_expected(5, snapshot(5))


@pytest.mark.parametrize("seed", seeds(2))
def test_a_writer_that_is_killed_at_random_moments_ends_in_the_same_table(
    streaming_clients: Clients, seed: int
) -> None:
    random, products = Random(seed), range(20)
    world = feed_with(streaming_clients, PRODUCTS)
    world.publish_expected(1, [row(1, product) for product in products])
    for number in (2, 3):
        rows = [row(number, product, random.choice([20, number])) for product in products]
        with step_faults.one_row_a_request():
            run = killed_load(world, world.land_expected(number, rows), random.randint(1, 9))
            for _ in range(random.randint(0, 2)):
                world.pass_time(random.choice([timedelta(0), STALENESS]))
                load_until_killed(run, random.randint(1, 9))
            world.finish(run)


@pytest.mark.parametrize(("engine", "applied_between"), [(Engine.CDC, False), (Engine.SPARK, True)])
def test_what_a_discarded_attempt_streamed_is_gone(world: StreamedFeed, engine: Engine, applied_between: bool) -> None:
    """Its delivery is corrected meanwhile: the rows that the corrected one lacks were streamed and must not appear."""
    world.publish_expected(2, snapshot(2))
    killed_load(world, world.land(3, [*snapshot(3), row(3, 77)]), rows=99)
    if applied_between:
        world.wait_for_changes()
    operations.recover_lease(world)
    record = world.publish_expected(3, snapshot(3), engine=engine)
    assert load_jobs(world, record)
    assert world.table_rows(world.feed.staging) == world.expected.table_rows()
    world.wait_for_changes()
    world.publish_expected(4, snapshot(4))


def test_what_a_writer_sends_that_was_taken_for_dead_is_noticed(world: StreamedFeed) -> None:
    late = world.services.warehouse.open_stream(world.feed.staging, world.table.columns, lambda: None)
    world.publish_expected(2, snapshot(2))
    late.append(row(2, 77), "2/2/1")
    late.finish()
    world.wait_for_changes()
    record = world.publish_expected(3, snapshot(3))
    assert load_jobs(world, record)


@contextmanager
def asleep_before_the_first_connection(meanwhile: Callable[[], Any]) -> Iterator[list[Any]]:
    """In the block, call `meanwhile` before a writer opens its first connection. Yields a list with the result."""
    woken: list[Any] = []
    append_rows, calls = BigQueryWriteClient.append_rows, count(1)

    def sleep(*arguments: Any, **options: Any) -> Any:
        if next(calls) == 1:
            woken.append(meanwhile())
        return append_rows(*arguments, **options)

    with patch.object(BigQueryWriteClient, "append_rows", sleep):
        yield woken


def test_a_writer_that_was_taken_for_dead_cannot_change_what_another_run_has_loaded(world: StreamedFeed) -> None:
    """Its row would replace another, so no check that counts rows would notice it."""
    world.publish_expected(2, snapshot(2))
    name = world.land(3, [*snapshot(3)[:2], row(3, 2, 99, day=YESTERDAY)])
    asleep = runs.publish(world, name, run_id="asleep").until("dedup")

    def take_over() -> runs.Run:
        operations.recover_lease(world)
        return runs.publish(world, world.land_expected(3, snapshot(3)), run_id="other").until("load")

    with asleep_before_the_first_connection(take_over) as woken, pytest.raises(LostRace):
        asleep.step("load")
    world.wait_for_changes()
    world.finish(woken[0])


def test_a_try_that_was_taken_for_dead_streams_nothing_after_the_next_try(world: StreamedFeed) -> None:
    run = runs.publish(world, world.land_expected(2, snapshot(2))).until("dedup")
    next_try = partial(run.step, "load")
    with asleep_before_the_first_connection(next_try) as woken, pytest.raises(LostRace, match="Another try"):
        run.step("load")
    assert woken
    world.finish(run)


def test_a_load_waits_until_no_connection_of_an_earlier_attempt_can_be_open(
    world: StreamedFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_load(world, world.land(2, [*snapshot(2), row(2, 77)]), rows=99)
    operations.recover_lease(world)
    run = runs.publish(world, world.land_expected(2, snapshot(2)), run_id="run-b").until("dedup")
    tasks = DagTasks(world, TaskApi(monkeypatch), monkeypatch, "publish", "run-b")
    tasks.has_taken(run.plan)
    with pytest.raises(TaskDeferred) as deferred:
        tasks.execute("load_staging")
    assert staging_state(world) == ("loading", True)
    world.move_clock(timedelta(minutes=3))
    assert f"{run.attempt}-load-1" in tasks.resume("load_staging", deferred.value.method_name)
    assert world.table_rows(world.feed.staging) == world.expected.table_rows()


@pytest.mark.parametrize("number", range(1, 4))
def test_a_load_that_was_taken_for_dead_does_not_replace_staging_into_which_another_run_streams(
    world: StreamedFeed, number: int
) -> None:
    """It sleeps before one of its writes: it was about to make staging anew, because an attempt before it streamed."""
    name = world.land_expected(2, snapshot(2))
    killed_load(world, name, rows=99)
    asleep = runs.publish(world, name, run_id="asleep").until("dedup")
    later = []

    def publish_and_stream() -> None:
        world.publish(name, run_id="other")
        later.append(runs.publish(world, world.land_expected(3, snapshot(3)), run_id="later").until("load"))

    with (
        asleep_before_write(number, publish_and_stream) as woken,
        pytest.raises((LostRace, JobFailed, PreconditionFailed)),
    ):
        asleep.step("load")
    assert woken
    world.finish(later[0])
    assert not load_jobs(world, later[0].record)
    assert world.table_rows(world.feed.staging) == world.expected.table_rows()


def test_changes_that_bigquery_does_not_apply_stop_the_publish(world: StreamedFeed) -> None:
    run = runs.publish(world, world.land_expected(2, snapshot(2))).until("dedup")
    world.add_fault({"match": {"job_id": "cdc_background.*"}, "effect": "error", "times": 50})
    with pytest.raises(CheckFailed, match=r"within \[45\] minutes"):
        run.until("load")
    assert staging_state(world) == ("loading", True)
    world.clear_faults()
    world.finish(run)  # streams again


def test_a_held_delivery_is_left_out_and_may_be_replayed_until_a_newer_one_is_live(world: StreamedFeed) -> None:
    lenient, garbage = world.feed, [row(2, product) for product in range(100, 110)]

    def held(snapshot_id: int) -> tuple[str, OracleState]:
        world.feed = lenient.model_copy(update={"checks": CheckSettings()})
        rows = [*snapshot(snapshot_id), *(one | {"update_id": snapshot_id} for one in garbage)]
        name = world.land(snapshot_id, rows)
        with pytest.raises(CheckFailed, match="new_share"):
            world.publish(name)
        operations.recover_lease(world)
        world.feed = lenient
        return name, world.expected.apply([OracleDelivery(snapshot_id, rows)], OLDEST)

    name, _ = held(2)
    world.publish_expected(3, snapshot(3))
    with pytest.raises(DeliveryRefused, match="needs snapshots in order"):
        world.publish(name, replay=True, reason="it is right", run_id="late")
    world.assert_equal(world.expected)
    name, expected = held(4)
    world.publish(name, replay=True, reason="it is right", run_id="replay")
    world.assert_equal(expected)


def test_engines_and_forms_switch_without_a_gap(streaming_clients: Clients) -> None:
    """The feed file names another engine or form for each publish, and another mode if the engine needs it."""
    world = FeedAgainstOracle(streaming_clients, feed_with_table(PRODUCTS))
    expected = OracleState(world.oracle_table)
    order = [Engine.SPARK, Engine.CDC, Engine.BIGQUERY, Engine.SPARK, Engine.MERGE, Engine.CDC, Engine.SPARK]
    order += [Engine.BIGQUERY, Engine.MERGE, Engine.BIGQUERY, Engine.CDC]
    for number, engine in enumerate(order, start=1):
        mode = UpdateIdMode.LAST_CHANGED if engine in (Engine.CDC, Engine.SPARK) else UpdateIdMode.LAST_SEEN
        form = list(SqlForm)[number % len(SqlForm)]
        changes = {"engine": engine, "form": form, "update_id_mode": mode, "cdc": CdcSettings(max_changed_share=1)}
        world.feed = world.feed.model_copy(update=changes)
        expected.last_changed = mode is UpdateIdMode.LAST_CHANGED
        rows = [row(number, 1, number), row(number, 10 + number), row(number, 2, day=YESTERDAY)]
        name = world.land(number, rows)
        assert number == 1 or world.table_rows() == expected.table_rows(), "readers have it until the swap"
        record = world.publish(name)
        expected = expected.apply([OracleDelivery(number, rows)], OLDEST)
        assert world.table_rows() == expected.table_rows()
        assert record.engine is engine
        has_files = engine in (Engine.SPARK, Engine.CDC)
        assert (world.state.manifest()["data_folder"] is not None) == has_files
        reasons = {entry["plan_reason"] for entry in world.state.manifest()["dates"]}
        assert any(f"(form {form})" in reason for reason in reasons) == (engine is Engine.BIGQUERY)
        operations.delete_obsolete(world)
        exports = [folder for folder in world.state.subfolders("data") if folder.endswith("-export")]
        assert exports == [], "they go with the attempt that needed them"
