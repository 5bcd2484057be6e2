"""The steps of the engines in SQL: once an attempt, repeatable, and on what staging really holds."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import QueryJob
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import ConfigurationError, JobFailed, LostRace, OutcomeUnknown
from dedup_clone.contract.manifest import Difference, KeyExample
from dedup_clone.contract.records import to_plain
from dedup_clone.contract.table import Column, ColumnMode, UpdateIdMode
from dedup_clone.engines import run
from dedup_clone.engines.staging_job import staging_configuration
from dedup_clone.orchestration import by_engine
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.folders import find_folders
from dedup_clone.orchestration.runners import dedup_operator
from dedup_clone.publish.jobs import FAILED_JOBS_TOLERATED, run_step_job
from dedup_clone.publish.load import read_candidate
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import read_feed
from dedup_clone.state.staging import StagingState
from tests.contract.engines.engine_world import WIDE_OPEN, EngineWorld, feed_of
from tests.contract.publish.feed_world import REPOSITORY, TODAY, row
from tests.spark.tables import PRODUCTS


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> EngineWorld:
    return EngineWorld(clients, feed_of(PRODUCTS))


def jobs_of(world: EngineWorld, order: PublishOrder) -> list[str]:
    """Steps and numbers of the attempt's jobs, as CURRENT has them."""
    intent = world.services.current.require_intent(order.attempt)
    return ["-".join(name.rsplit("-", 2)[1:]) for name in intent.jobs]


def test_each_job_of_the_step_runs_once_however_often_the_task_is_tried(
    world: EngineWorld, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = world.resolve(world.land(1, [row(1, 1)]), engine=engine)

    def die(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(run, "build_manifest", die)
    with pytest.raises(RuntimeError, match="killed"):
        world.deduplicate(order)
    monkeypatch.undo()
    assert world.services.manifests.candidate(order.attempt) is None
    world.deduplicate(order)
    first = world.services.manifests.candidate(order.attempt)
    world.deduplicate(order)
    assert world.services.manifests.candidate(order.attempt) == first
    assert jobs_of(world, order) == ["examine_1-1", "incoming-1", "append_1-1", "evidence-1"]
    world.load(order)
    assert world.services.warehouse.table(f"{world.feed.target}_incoming") is None  # no policy would protect it
    world.swap(order, world.check(order))
    assert world.commit(order).rows == 1


def test_without_the_lease_nothing_is_done(world: EngineWorld, engine: Engine) -> None:
    order = world.resolve(world.land(1, [row(1, 1)]), engine=engine)
    world.services.current.release(order.attempt)
    with pytest.raises(LostRace):
        world.deduplicate(order)
    assert world.services.warehouse.table(f"{world.feed.target}_incoming") is None


def test_delivery_that_the_load_job_cannot_decode_is_refused_alone(world: EngineWorld) -> None:
    world.land(1, [row(1, 1)])
    order = world.resolve(world.land(2, [row(2, 2)]), engine=Engine.BIGQUERY)
    fault = {"effect": "error", "reason": "invalid", "status": 400, "message": "a page is damaged"}
    world.control("/_standin/faults", {"match": {"job_id": f"{order.attempt}-append_1-1$"}, **fault})
    world.deduplicate(order)
    candidate, manifest = read_candidate(world.services, order)
    (refused,) = candidate.refused
    assert refused.delivery.snapshot_id == 1
    assert "BigQuery cannot load its files: " in refused.reason
    assert "a page is damaged" in refused.reason
    assert [d.snapshot_id for d in manifest.applied] == [2]
    assert manifest.rows == 1


def test_job_that_fails_for_another_reason_is_tried_again_under_the_next_id(world: EngineWorld) -> None:
    order = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.BIGQUERY)
    fault = {"effect": "error", "reason": "backendError", "status": 503, "message": "try again"}
    world.control("/_standin/faults", {"match": {"job_id": f"{order.attempt}-append_1-1$"}, **fault})
    with pytest.raises(JobFailed, match="backendError"):
        world.deduplicate(order)
    world.deduplicate(order)
    assert jobs_of(world, order)[2:] == ["append_1-1", "append_1-2", "evidence-1"]


def test_step_whose_jobs_all_fail_ends(world: EngineWorld) -> None:
    order = world.resolve(world.land(1, [row(1, 1)]))
    query = {"query": {"query": "SELECT ERROR('no')", "useLegacySql": False}}
    for _ in range(FAILED_JOBS_TOLERATED):
        with pytest.raises(JobFailed, match=r"no") as failure:
            run_step_job(world.services, order.attempt, "probe", query)
        assert failure.value.by_content
    with pytest.raises(OutcomeUnknown, match=r"20 BigQuery jobs of step \[probe\]"):
        run_step_job(world.services, order.attempt, "probe", query)


def test_merge_restores_the_parent_where_staging_holds_another_attempts_rows(world: EngineWorld) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=Engine.MERGE)
    failed = world.resolve(world.land(2, [row(2, 1, 99), row(2, 9)]), engine=Engine.BIGQUERY)
    world.deduplicate(failed)
    world.load(failed)  # staging holds it, and it is never swapped
    name = world.land(3, [row(3, 1, 30)])
    world.services.current.release(failed.attempt)
    for delivery in world.services.arrivals.deliveries():
        if delivery.snapshot_id == 2:
            world.storage.bucket("state").blob(world.services.layout.arrival(delivery)).delete()
    world.publish(name, engine=Engine.MERGE)
    assert [(r[1], r[4]) for r in world.table_rows()] == [([1, 1], [1, 30]), ([1, 2], [1, 20])]


def test_merge_leaves_the_parents_rows_in_place_where_staging_holds_them(world: EngineWorld) -> None:
    world.publish(world.land(1, [row(1, 1)]), engine=Engine.SPARK)
    order = world.resolve(world.land(2, [row(2, 1)]), engine=Engine.MERGE)
    world.deduplicate(order)
    sql = merge_of(world, order)
    assert "MERGE INTO" in sql
    assert "TRUNCATE" not in sql
    staging = world.services.staging.read()
    assert staging
    world.load(order)
    assert "TRUNCATE" in merge_of(world, order)  # a second job would not find the parent there


def merge_of(world: EngineWorld, order: PublishOrder) -> str:
    configuration = staging_configuration(world.services, order, *read_candidate(world.services, order))
    return str(configuration["query"]["query"])


def test_merging_twice_changes_nothing(world: EngineWorld) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=Engine.MERGE)
    order = world.resolve(world.land(2, [row(2, 1, 5), row(2, 3)]), engine=Engine.MERGE)
    world.deduplicate(order)
    candidate, manifest = read_candidate(world.services, order)
    configuration = staging_configuration(world.services, order, candidate, manifest)
    reference = {"projectId": "local-dev", "jobId": f"again-{order.attempt}", "location": "US"}
    job = QueryJob.from_api_repr({"jobReference": reference, "configuration": configuration}, world.bigquery)
    job._begin()
    job.result()
    once = world.table_rows(world.feed.staging)
    world.load(order)  # a retried task whose first job nobody remembers
    assert world.table_rows(world.feed.staging) == once
    world.swap(order, world.check(order))
    assert world.commit(order).rows == 3


def test_publish_goes_on_after_a_rollback_by_time_travel(world: EngineWorld) -> None:
    """Target then holds what staging does not."""
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=Engine.BIGQUERY)
    world.publish(world.land(2, [row(2, 1, 99)]), engine=Engine.MERGE)
    world.roll_back(1)
    world.publish(world.land(3, [row(3, 1, 30)]), engine=Engine.MERGE)
    assert [(r[1], r[4]) for r in world.table_rows()] == [([1, 1], [1, 30]), ([1, 2], [1, 20])]
    staging = world.services.staging.read()
    assert staging
    assert (staging.state, staging.manifest_digest) == (StagingState.LOADED, world.manifest().digest)


def test_examples_name_keys_of_each_difference(world: EngineWorld, engine: Engine) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=engine)
    order = world.resolve(world.land(2, [row(2, 1, 9), row(2, 3)]), engine=engine)
    world.deduplicate(order)
    candidate, _ = read_candidate(world.services, order)

    def example(difference: Difference, product: int) -> KeyExample:
        return KeyExample(TODAY, difference, f"product_id={product}, store_id=2072, attribute_id=1")

    assert candidate.examples == (
        example(Difference.NEW, 3),
        example(Difference.CHANGED, 1),
        example(Difference.SURVIVOR, 2),
    )


def test_feed_with_required_nested_text_and_date_columns(clients: tuple[Storage, BigQuery]) -> None:
    shipped = read_feed(REPOSITORY / "dags" / "feeds" / "store_visits.yaml")
    named = feed_of(shipped.table.to_contract())
    landing = shipped.landing.model_copy(update={"prefix": named.feed})
    changes = {"feed": named.feed, "landing": landing, "engine": Engine.BIGQUERY, "checks": WIDE_OPEN}
    world = EngineWorld(clients, shipped.model_copy(update=changes))

    def visit(snapshot: int, store: str, revenue: str, baskets: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "visited_on": TODAY,
            "store_code": store,
            "campaign_start": TODAY,
            "visitors": 1,
            "revenue": Decimal(revenue),
            "last_visit_at": datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC),
            "store": {"city": "Zürich", "area_m2": 1.5},
            "baskets": baskets,
            "snapshot_no": snapshot,
        }

    basket = {"sku": "a", "quantity": 1, "price": Decimal("2.5")}
    world.publish(world.land(1, [visit(1, "x", "1.5", []), visit(1, "y", "1", [basket])]))
    world.publish(world.land(2, [visit(2, "x", "1.5", [basket]), visit(2, "x", "1.5", [basket, basket])]))
    (day,) = world.manifest().dates
    assert (day.rows, day.changed, day.survivors, day.ties) == (2, 1, 1, 1)
    found = {r[1][1].decode(): r for r in world.table_rows()}
    assert found.keys() == {"x", "y"}
    assert len(found["x"][7][1]) == 2  # of two rows of a key the one with more baskets
    target = world.services.warehouse.table(world.feed.target)
    assert target
    assert {c.name for c in target.columns if c.mode is ColumnMode.REQUIRED} == {"store_code"}


def test_replay_by_an_engine_that_cannot_keep_the_contract_is_refused(clients: tuple[Storage, BigQuery]) -> None:
    feed = feed_of(PRODUCTS).model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world = EngineWorld(clients, feed)
    name = world.land(1, [row(1, 1)])
    with pytest.raises(ConfigurationError, match=r"engine \[merge\] knows update_id_mode \[last_seen\] only"):
        world.resolve(name, engine=Engine.MERGE)
    assert world.services.current.read().intent is None


@pytest.mark.parametrize("runner", ["local", "gcp"])
def test_the_dedup_task_does_what_the_order_says(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch, runner: str
) -> None:
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": runner})
    setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
    task = dedup_operator(setup, task_id="dedup_snapshot", request_uri="unused")
    order = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.BIGQUERY)
    monkeypatch.setattr(by_engine, "connect", lambda setup: world.services)
    dag = SimpleNamespace(has_task=lambda name: name == "resolve_publish")
    context: Any = {"ti": SimpleNamespace(xcom_pull=lambda **_: to_plain(order)), "task": task, "dag": dag}
    task.execute(context)
    candidate = world.services.manifests.candidate(order.attempt)
    assert candidate
    assert candidate.manifest
    assert candidate.manifest.engine is Engine.BIGQUERY


def test_the_dedup_task_submits_spark_when_the_order_says_so(
    world: EngineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted = []
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
    setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
    task: Any = dedup_operator(setup, task_id="dedup_snapshot", request_uri="uri")
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda self, context: submitted.append(self.application_args))
    order = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.SPARK)
    dag = SimpleNamespace(has_task=lambda name: name == "resolve_publish")
    task.execute({"ti": SimpleNamespace(xcom_pull=lambda **_: to_plain(order)), "task": task, "dag": dag})
    assert submitted == [["--request", "uri"]]
    assert world.services.manifests.candidate(order.attempt) is None


def test_column_names_that_are_reserved_words(clients: tuple[Storage, BigQuery], engine: Engine) -> None:
    columns = tuple(Column(name, kind) for name, kind in (("date", "DATE"), ("order", "INT64"), ("select", "STRING")))
    table = PRODUCTS.__class__((*columns, Column("from", "INT64")), "date", "from", ("date", "order"), (), 730)
    world = EngineWorld(clients, feed_of(table))
    world.publish(world.land(1, [{"date": TODAY, "order": 1, "select": "a", "from": 1}]), engine=engine)
    assert len(world.table_rows()) == 1
