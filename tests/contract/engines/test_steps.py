"""The steps of the engines in SQL: once an attempt, repeatable, and on what staging really holds."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk.exceptions import AirflowFailException
from google.cloud.bigquery import Client as BigQuery
from google.cloud.bigquery import QueryJob
from google.cloud.storage import Client as Storage

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.errors import CheckFailed, ConfigurationError, JobFailed, LostRace, OutcomeUnknown
from dedup_clone.contract.manifest import Difference, KeyExample
from dedup_clone.contract.records import to_plain
from dedup_clone.contract.table import Column, ColumnMode, UpdateIdMode
from dedup_clone.engines import dedup_in_bigquery
from dedup_clone.engines.staging_job import staging_configuration
from dedup_clone.orchestration.runners import dedup_operator, engine_dispatch
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.publish.attempt_jobs import MAX_FAILED_JOBS, run_step_job
from dedup_clone.publish.discard import discard
from dedup_clone.publish.load import begin_load, read_candidate
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.check_settings import CheckSettings
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import read_feed
from dedup_clone.state.ledger import Outcome
from dedup_clone.state.staging import StagingState
from testkit.feed_against_oracle import NO_LIMITS, FeedAgainstOracle, feed_with_table
from testkit.feed_on_stand_in import REPOSITORY, TODAY, row
from testkit.table_contracts import PRODUCTS

# For what both engines do by the same statements.
one_engine = pytest.mark.parametrize(
    "engine", [Engine.BIGQUERY, pytest.param(Engine.MERGE, marks=pytest.mark.exhaustive)]
)


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedAgainstOracle:
    return FeedAgainstOracle(clients, feed_with_table(PRODUCTS))


def jobs_of(world: FeedAgainstOracle, spec: PublishSpec) -> list[str]:
    """Steps and numbers of the attempt's jobs, as CURRENT has them."""
    intent = world.services.current.require_intent(spec.attempt)
    return ["-".join(name.rsplit("-", 2)[1:]) for name in intent.jobs]


@one_engine
def test_each_job_of_the_step_runs_once_however_often_the_task_is_tried(
    world: FeedAgainstOracle, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = world.resolve(world.land(1, [row(1, 1)]), engine=engine)

    def die(*_: Any, **__: Any) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(dedup_in_bigquery, "build_manifest", die)
    with pytest.raises(RuntimeError, match="killed"):
        world.deduplicate(spec)
    monkeypatch.undo()
    assert world.services.manifests.candidate(spec.attempt) is None
    world.deduplicate(spec)
    first = world.services.manifests.candidate(spec.attempt)
    world.deduplicate(spec)
    assert world.services.manifests.candidate(spec.attempt) == first
    assert jobs_of(world, spec) == ["examine_1-1", "incoming-1", "append_1-1", "evidence-1"]
    world.load(spec)
    assert world.services.warehouse.table(f"{world.feed.target}_incoming") is None  # no policy would protect it
    world.swap(spec, world.check(spec))
    assert world.commit(spec).rows == 1


@one_engine
def test_without_the_lease_nothing_is_done(world: FeedAgainstOracle, engine: Engine) -> None:
    spec = world.resolve(world.land(1, [row(1, 1)]), engine=engine)
    world.services.current.release(spec.attempt)
    with pytest.raises(LostRace):
        world.deduplicate(spec)
    assert world.services.warehouse.table(f"{world.feed.target}_incoming") is None


def test_delivery_that_the_load_job_cannot_decode_is_refused_alone(world: FeedAgainstOracle) -> None:
    world.land(1, [row(1, 1)])
    spec = world.resolve(world.land(2, [row(2, 2)]), engine=Engine.BIGQUERY)
    fault = {"effect": "error", "reason": "invalid", "status": 400, "message": "a page is damaged"}
    world.add_fault({"match": {"job_id": f"{spec.attempt}-append_1-1$"}, **fault})
    world.deduplicate(spec)
    candidate, manifest = read_candidate(world.services, spec)
    (refused,) = candidate.refused
    assert refused.delivery.snapshot_id == 1
    assert "BigQuery cannot load its files: " in refused.reason
    assert "a page is damaged" in refused.reason
    assert [d.snapshot_id for d in manifest.applied] == [2]
    assert manifest.rows == 1


def test_job_that_fails_for_another_reason_is_tried_again_under_the_next_id(world: FeedAgainstOracle) -> None:
    spec = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.BIGQUERY)
    fault = {"effect": "error", "reason": "backendError", "status": 503, "message": "try again"}
    world.add_fault({"match": {"job_id": f"{spec.attempt}-append_1-1$"}, **fault})
    with pytest.raises(JobFailed, match="backendError"):
        world.deduplicate(spec)
    world.deduplicate(spec)
    assert jobs_of(world, spec)[2:] == ["append_1-1", "append_1-2", "evidence-1"]


def test_step_whose_jobs_all_fail_ends(world: FeedAgainstOracle) -> None:
    spec = world.resolve(world.land(1, [row(1, 1)]))
    query = {"query": {"query": "SELECT ERROR('no')", "useLegacySql": False}}
    for _ in range(MAX_FAILED_JOBS):
        with pytest.raises(JobFailed, match=r"no") as failure:
            run_step_job(world.services, spec.attempt, "probe", query)
        assert failure.value.is_invalid_input
    with pytest.raises(OutcomeUnknown, match=r"20 BigQuery jobs of step \[probe\]"):
        run_step_job(world.services, spec.attempt, "probe", query)


def test_merge_gives_way_to_a_select_where_staging_holds_another_attempts_rows(world: FeedAgainstOracle) -> None:
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


def test_merge_leaves_the_parents_rows_in_place_where_staging_holds_them(world: FeedAgainstOracle) -> None:
    world.publish(world.land(1, [row(1, 1)]), engine=Engine.SPARK)
    spec = world.resolve(world.land(2, [row(2, 1)]), engine=Engine.MERGE)
    world.deduplicate(spec)
    sql = merge_of(world, spec)
    assert "MERGE INTO" in sql
    _, manifest = read_candidate(world.services, spec)
    begin_load(world.services, spec, manifest)
    assert "MERGE INTO" not in merge_of(world, spec)  # a second job would not find the parent there


def merge_of(world: FeedAgainstOracle, spec: PublishSpec) -> str:
    configuration = staging_configuration(world.services, spec, *read_candidate(world.services, spec))
    return str(configuration["query"]["query"])


def test_merging_twice_changes_nothing(world: FeedAgainstOracle) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=Engine.MERGE)
    spec = world.resolve(world.land(2, [row(2, 1, 5), row(2, 3)]), engine=Engine.MERGE)
    world.deduplicate(spec)
    candidate, manifest = read_candidate(world.services, spec)
    configuration = staging_configuration(world.services, spec, candidate, manifest)
    reference = {"projectId": "local-dev", "jobId": f"again-{spec.attempt}", "location": "US"}
    job = QueryJob.from_api_repr({"jobReference": reference, "configuration": configuration}, world.bigquery)
    job._begin()
    job.result()
    once = world.table_rows(world.feed.staging)
    world.load(spec)  # a retried task whose first job nobody remembers
    assert world.table_rows(world.feed.staging) == once
    world.swap(spec, world.check(spec))
    assert world.commit(spec).rows == 3


def test_publish_goes_on_after_a_rollback_by_time_travel(world: FeedAgainstOracle) -> None:
    """Target then holds what staging does not."""
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=Engine.BIGQUERY)
    world.publish(world.land(2, [row(2, 1, 99)]), engine=Engine.MERGE)
    world.roll_back(1)
    world.publish(world.land(3, [row(3, 1, 30)]), engine=Engine.MERGE)
    assert [(r[1], r[4]) for r in world.table_rows()] == [([1, 1], [1, 30]), ([1, 2], [1, 20])]
    staging = world.services.staging.read()
    assert staging
    assert (staging.state, staging.manifest_digest) == (StagingState.LOADED, world.manifest().digest)


@one_engine
def test_examples_name_keys_of_each_difference(world: FeedAgainstOracle, engine: Engine) -> None:
    world.publish(world.land(1, [row(1, 1), row(1, 2)]), engine=engine)
    spec = world.resolve(world.land(2, [row(2, 1, 9), row(2, 3)]), engine=engine)
    world.deduplicate(spec)
    candidate, _ = read_candidate(world.services, spec)

    def example(difference: Difference, product: int) -> KeyExample:
        return KeyExample(TODAY, difference, f"product_id={product}, store_id=2072, attribute_id=1")

    assert candidate.examples == (
        example(Difference.NEW, 3),
        example(Difference.CHANGED, 1),
        example(Difference.SURVIVOR, 2),
    )


@pytest.mark.exhaustive
def test_feed_with_required_nested_text_and_date_columns(clients: tuple[Storage, BigQuery]) -> None:
    shipped = read_feed(REPOSITORY / "dags" / "feeds" / "store_visits.yaml")
    named = feed_with_table(shipped.table.to_contract())
    landing = shipped.landing.model_copy(update={"prefix": named.feed})
    changes = {"feed": named.feed, "landing": landing, "engine": Engine.BIGQUERY, "checks": NO_LIMITS}
    world = FeedAgainstOracle(clients, shipped.model_copy(update=changes))

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
    feed = feed_with_table(PRODUCTS).model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})
    world = FeedAgainstOracle(clients, feed)
    name = world.land(1, [row(1, 1)])
    with pytest.raises(ConfigurationError, match=r"engine \[merge\] supports update_id_mode \[last_seen\] only"):
        world.resolve(name, engine=Engine.MERGE)
    assert world.services.current.read().intent is None


def run_dedup_task(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch, spec: PublishSpec, *, runner: str = "local"
) -> None:
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": runner})
    setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
    task: Any = dedup_operator(setup, task_id="dedup_snapshot", request_uri=spec.request_uri)
    monkeypatch.setattr(engine_dispatch, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda task, _: world.dedup.run(task.application_args[1]))
    dag = SimpleNamespace(has_task=lambda name: name == "resolve_publish")
    task.execute({"ti": SimpleNamespace(xcom_pull=lambda **_: to_plain(spec)), "task": task, "dag": dag})


@pytest.mark.parametrize("runner", [pytest.param("local", marks=pytest.mark.exhaustive), "gcp"])
def test_the_dedup_task_does_what_the_order_says(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch, runner: str
) -> None:
    spec = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.BIGQUERY)
    run_dedup_task(world, monkeypatch, spec, runner=runner)
    _, manifest = read_candidate(world.services, spec)
    assert manifest.engine is Engine.BIGQUERY


def test_the_dedup_task_submits_spark_when_the_order_says_so(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = world.resolve(world.land(1, [row(1, 1)]), engine=Engine.SPARK)
    run_dedup_task(world, monkeypatch, spec)
    _, manifest = read_candidate(world.services, spec)
    assert manifest.engine is Engine.SPARK


def test_the_dedup_task_starts_no_spark_for_a_replay_that_accepts_what_a_check_stopped(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    lenient = world.feed
    world.publish(world.land(1, [row(1, 1)]), engine=Engine.SPARK)
    world.feed = lenient.model_copy(update={"checks": CheckSettings()})
    name = world.land(2, [row(2, product) for product in range(1, 4)])
    with pytest.raises(CheckFailed):
        world.publish(name, engine=Engine.SPARK)
    stopped = world.services.current.read().intent
    assert stopped is not None
    discard(world.services, stopped)
    accepts = {"replay": True, "accepted_checks": ("new_share",), "reason": "right", "run_id": "by-hand"}
    spec = world.resolve(name, engine=Engine.SPARK, **accepts)
    monkeypatch.setattr(world.dedup, "run", lambda request_uri: pytest.fail("a dedup job ran"))
    run_dedup_task(world, monkeypatch, spec)
    _, manifest = read_candidate(world.services, spec)
    assert (manifest.attempt, manifest.generation, manifest.rows) == (spec.attempt, 3, 3)


@pytest.mark.parametrize("engine", [Engine.SPARK, Engine.BIGQUERY])
def test_the_dedup_task_fails_at_once_when_every_delivery_is_refused(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch, engine: Engine
) -> None:
    world.dedup.refused_ids = {1}
    name = world.land(1, [row(2, 1)])  # rows of another snapshot
    spec = world.resolve(name, engine=engine)
    with pytest.raises(AirflowFailException, match=rf"Every delivery was refused(?s:.*)\[{name}\]"):
        run_dedup_task(world, monkeypatch, spec)
    assert [delivery.name for delivery in world.services.arrivals.refused()] == [name]
    assert [record.outcome for record in world.services.ledger.read_last(9)] == [Outcome.REFUSED]
    assert world.services.current.read().intent is None
    with pytest.raises(AirflowFailException, match="this attempt has ended"):  # a second try tells nobody again
        run_dedup_task(world, monkeypatch, spec)
    assert len(world.services.ledger.read_last(9)) == 1


def test_the_dedup_task_fails_when_its_job_left_no_candidate(
    world: FeedAgainstOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.dedup = SimpleNamespace(run=lambda request_uri: None)
    spec = world.resolve(world.land(1, [row(1, 1)]))
    with pytest.raises(AirflowFailException, match="has no candidate manifest although its dedup job ended well"):
        run_dedup_task(world, monkeypatch, spec)


@one_engine
def test_column_names_that_are_reserved_words(clients: tuple[Storage, BigQuery], engine: Engine) -> None:
    columns = tuple(Column(name, kind) for name, kind in (("date", "DATE"), ("order", "INT64"), ("select", "STRING")))
    table = PRODUCTS.__class__((*columns, Column("from", "INT64")), "date", "from", ("date", "order"), (), 730)
    world = FeedAgainstOracle(clients, feed_with_table(table))
    world.publish(world.land(1, [{"date": TODAY, "order": 1, "select": "a", "from": 1}]), engine=engine)
    assert len(world.table_rows()) == 1
