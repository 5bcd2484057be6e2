"""Engine `cdc` with Google's client and the stand-in: the table is the oracle's, whatever dies."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred

from dedup_clone.contract.billing import MIN_BYTES_BILLED
from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed
from dedup_clone.contract.table import Column
from dedup_clone.freshness.late_run import current_task
from dedup_clone.orchestration.shared import bigquery_operators
from dedup_clone.orchestration.shared.bigquery_operators import LoadStagingOperator
from dedup_clone.publish.previews.dry_run import dry_run
from dedup_clone.publish.previews.dry_run_text import dry_run_text
from dedup_clone.publish.recovery import commit_or_discard
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.state.staging import StagingState
from dedup_clone.warehouse import append_rows
from testkit.fake_dedup_job import Row
from testkit.feed_on_stand_in import TODAY, row
from testkit.generated_tables import GeneratedHistory, random_table
from testkit.oracle import OracleDelivery, OracleState
from testkit.spark_dedup_process import SparkDedupProcess
from testkit.table_contracts import PRODUCTS
from tests.contract.engines.streamed_feed import (
    OLDEST,
    STALENESS,
    Clients,
    Killed,
    StreamedFeed,
    feed_with,
    kill_writer,
    killed_load,
    load_jobs,
    snapshot,
    staging_state,
)
from tests.contract.feed_setups import setup_of


@pytest.fixture
def world(streaming_clients: Clients) -> StreamedFeed:
    return feed_with(streaming_clients, PRODUCTS)


def test_only_the_changed_rows_are_streamed_and_a_dry_run_counts_them(world: StreamedFeed) -> None:
    first = world.publish_expected(1, snapshot(1))
    assert load_jobs(world, first)
    assert first.cost
    assert first.cost.streamed_bytes == 0
    second = world.publish_expected(2, snapshot(2))
    assert not load_jobs(world, second)
    assert second.cost
    assert 0 < second.cost.streamed_bytes < 2 * 100
    assert second.cost.stream_usd > 0
    assert second.phases["load"] > 0
    streamed = world.services.streamed_changes.read(second.attempt)
    assert streamed
    assert (streamed.rows, streamed.requests) == (2, 1)
    background = [job for job in world.bigquery.list_jobs(all_users=True) if "cdc_background" in job.job_id]
    assert background
    preview = dry_run(world.services, world.publish_request(world.land(3, snapshot(3))))
    assert preview.cost.streamed_bytes == 2 * 48  # as many rows as in the publish before
    assert preview.cost.apply_bytes == MIN_BYTES_BILLED
    assert "of changed rows; 10.0 MiB are read to apply them" in dry_run_text(preview)


def test_a_snapshot_that_changes_nothing_streams_nothing(world: StreamedFeed) -> None:
    rows = snapshot(1)
    world.publish_expected(1, rows)
    record = world.publish_expected(2, [{**r, "update_id": 2} for r in rows])
    assert record.cost
    assert record.cost.streamed_bytes == 0
    assert not load_jobs(world, record)


@pytest.mark.spark
@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_rows_of_every_type_arrive_as_they_are(streaming_clients: Clients, seed: int) -> None:
    """With the Spark job. The messages of rows of every type are in tests/unit/warehouse/test_row_messages.py."""
    random = Random(seed)
    table = random_table(random, floats_in_arrays=True)
    world = feed_with(streaming_clients, table)
    history = GeneratedHistory(table, random, TODAY - timedelta(days=4), repeat=0.2)
    streamed = 0
    with SparkDedupProcess(streaming_clients[0]) as world.dedup:
        for number in range(1, 5):
            record = world.publish_expected(number, history.snapshot(number))
            assert record.cost
            streamed += record.cost.streamed_bytes
    assert streamed


def test_the_load_task_waits_deferred_until_bigquery_has_applied_the_rows(
    world: StreamedFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.publish_expected(1, snapshot(1))
    spec = world.resolve(world.land_expected(2, snapshot(2)), run_id="run-a")
    world.deduplicate(spec)
    monkeypatch.setattr(bigquery_operators, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(bigquery_operators, "pull_spec", lambda context: spec)
    task: Any = LoadStagingOperator(task_id="load_staging", setup=setup_of(world))
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    assert deferred.value.method_name == "resume_after_interval"
    assert current_task(world.services.store, world.feed.feed, "run-a") == "task [load_staging]"
    assert staging_state(world) == (StagingState.LOADING, True)
    world.wait_for_changes()
    assert task.resume_after_interval({}) == "2 changed rows"
    assert current_task(world.services.store, world.feed.feed, "run-a").startswith("task [load_staging] or [check")
    assert staging_state(world) == (StagingState.LOADED, False)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    world.assert_equal(world.expected)


def test_too_many_changes_are_loaded_instead(streaming_clients: Clients) -> None:
    world = feed_with(streaming_clients, PRODUCTS, max_changed_share=0.4)
    world.publish_expected(1, snapshot(1))
    loaded = world.publish_expected(2, snapshot(2))  # 2 of 4 rows
    streamed = world.publish_expected(3, snapshot(3))  # 2 of 5
    assert load_jobs(world, loaded)
    assert not load_jobs(world, streamed)


def test_a_publish_that_adds_and_widens_columns_loads_and_the_next_one_streams_into_them(world: StreamedFeed) -> None:
    world.publish_expected(1, snapshot(1))
    assert not load_jobs(world, world.publish_expected(2, snapshot(2)))
    columns = [replace(c, type="NUMERIC") if c.name == "attr_value" else c for c in PRODUCTS.columns]
    world.declare(replace(PRODUCTS, columns=(*columns, Column("size", "INT64"))))
    known = {key: {**known_row, "size": None} for key, known_row in world.expected.rows.items()}
    world.expected = OracleState(world.oracle_table, last_changed=True, rows=known)

    def wider(number: int) -> list[Row]:
        return [{**r, "attr_value": Decimal(r["attr_value"]) / 4, "size": number} for r in snapshot(number)]

    assert load_jobs(world, world.publish_expected(3, wider(3)))
    assert not load_jobs(world, world.publish_expected(4, wider(4)))
    target = world.services.warehouse.table(world.feed.target)
    assert target
    assert target.columns == world.table.columns


def test_a_rollback_and_what_follows_it(world: StreamedFeed) -> None:
    for number in (1, 2, 3):
        before = world.expected
        world.publish_expected(number, snapshot(number))
    world.roll_back(2)
    world.expected = before
    assert world.table_rows() == before.table_rows()
    world.publish_expected(4, snapshot(4))
    world.publish_expected(5, snapshot(5))


@pytest.mark.parametrize(
    ("rows", "applied_between"),
    [(1, False), *(pytest.param(*more, marks=pytest.mark.exhaustive) for more in [(99, True), (1, True), (2, False)])],
)
def test_a_killed_writer_begins_again(world: StreamedFeed, rows: int, applied_between: bool) -> None:
    world.publish_expected(1, snapshot(1))
    spec = killed_load(world, world.land_expected(2, snapshot(2)), rows)
    if applied_between:
        world.wait_for_changes()
    world.load(spec)
    world.swap(spec, world.check(spec))
    world.commit(spec)
    world.assert_equal(world.expected)
    world.publish_expected(3, snapshot(3))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(20))
def test_a_writer_that_is_killed_at_random_moments_ends_in_the_same_table(
    world: StreamedFeed, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random, products = Random(seed), range(20)
    monkeypatch.setattr(append_rows, "MAX_REQUEST_BYTES", 1)  # a request for each row
    world.publish_expected(1, [row(1, product) for product in products])
    for number in (2, 3):
        rows = [row(number, product, random.choice([20, number])) for product in products]
        spec = killed_load(world, world.land_expected(number, rows), random.randint(1, 9))
        for _ in range(random.randint(0, 2)):
            world.pass_time(random.choice([timedelta(0), STALENESS]))
            with pytest.MonkeyPatch.context() as patch:
                kill_writer(patch, random.randint(1, 9))
                with pytest.raises(Killed):
                    world.load(spec)
        world.load(spec)
        world.swap(spec, world.check(spec))
        world.commit(spec)
        world.assert_equal(world.expected)


@pytest.mark.parametrize(
    ("engine", "applied_between"),
    [(Engine.CDC, False), pytest.param(Engine.SPARK, True, marks=pytest.mark.exhaustive)],
)
def test_what_a_discarded_attempt_streamed_is_gone(world: StreamedFeed, engine: Engine, applied_between: bool) -> None:
    """Its delivery is corrected meanwhile: the rows that the corrected one lacks were streamed and must not appear."""
    world.publish_expected(1, snapshot(1))
    world.publish_expected(2, snapshot(2))
    killed_load(world, world.land(3, [*snapshot(3), row(3, 77)]), rows=99)
    if applied_between:
        world.wait_for_changes()
    intent = world.services.current.read().intent
    assert intent
    commit_or_discard(world.services, intent)
    record = world.publish_expected(3, snapshot(3), engine=engine)
    assert load_jobs(world, record)
    assert world.table_rows(world.feed.staging) == world.expected.table_rows()
    world.wait_for_changes()
    world.publish_expected(4, snapshot(4))


def test_what_a_writer_sends_that_was_taken_for_dead_is_noticed(world: StreamedFeed) -> None:
    world.publish_expected(1, snapshot(1))
    late = world.services.warehouse.cdc.open_stream(world.feed.staging, world.table.columns)
    world.publish_expected(2, snapshot(2))
    late.append(row(2, 77), "2/2/1")
    late.finish()
    late.close()
    world.wait_for_changes()
    record = world.publish_expected(3, snapshot(3))
    assert load_jobs(world, record)
    assert record.cost
    assert record.cost.streamed_bytes == 0


def test_changes_that_bigquery_does_not_apply_stop_the_publish(world: StreamedFeed) -> None:
    world.publish_expected(1, snapshot(1))
    spec = world.resolve(world.land_expected(2, snapshot(2)))
    world.deduplicate(spec)
    fault = {"match": {"job_id": "cdc_background.*"}, "effect": "error", "times": 50}
    world.add_fault(fault)
    with pytest.raises(CheckFailed, match=r"has not applied the changes .* within \[45\] minutes"):
        world.load(spec)
    assert staging_state(world) == (StagingState.LOADING, True)
    world.clear_faults()
    world.load(spec)  # streams again
    world.swap(spec, world.check(spec))
    world.commit(spec)
    world.assert_equal(world.expected)


@pytest.mark.parametrize("publish", ["staging", "direct"])
def test_a_held_delivery_is_left_out_until_it_is_replayed(streaming_clients: Clients, publish: str) -> None:
    world = feed_with(streaming_clients, PRODUCTS, publish=publish)
    world.publish_expected(1, snapshot(1))
    lenient, garbage = world.feed, [*snapshot(2), *(row(2, product) for product in range(100, 110))]
    world.feed = lenient.model_copy(update={"checks": CheckSettings()})
    name = world.land(2, garbage)
    with pytest.raises(CheckFailed, match="new_share"):
        world.publish(name)
    intent = world.services.current.read().intent
    assert intent is not None
    assert not commit_or_discard(world.services, intent)
    world.feed = lenient
    world.publish_expected(3, snapshot(3))
    world.publish(name, replay=True, reason="it is right", run_id="replay")
    world.expected = world.expected.apply([OracleDelivery(2, garbage)], OLDEST)
    world.assert_equal(world.expected)
