"""The tasks of DAGs that a person starts, as Airflow runs them: forms, XComs, and errors that no retry can fix."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from dedup_clone.orchestration.backfill import backfill_tasks
from dedup_clone.orchestration.backfill.backfill_form import backfill_params
from dedup_clone.orchestration.bootstrap import bootstrap_tasks
from dedup_clone.orchestration.bootstrap.bootstrap_form import bootstrap_params
from dedup_clone.orchestration.erasure import erasure_tasks
from dedup_clone.orchestration.erasure.erasure_form import erasure_params
from dedup_clone.orchestration.rebuild import rebuild_tasks
from dedup_clone.orchestration.retirement import retirement_tasks
from dedup_clone.orchestration.rollback import rollback_tasks
from dedup_clone.orchestration.rollback.rollback_form import rollback_params
from dedup_clone.orchestration.runners.sizing import size_run
from dedup_clone.orchestration.runners.workload import read_workload
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.orchestration.shared.task_runtime import RESOLVE_ERASURE, pull_spec
from dedup_clone.orchestration.watch import delivery_sensor
from dedup_clone.orchestration.watch.delivery_sensor import DeliverySensor
from dedup_clone.orchestration.watchdog import feed_check
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.spark_settings import Runner, SparkSize
from testkit.feed_on_stand_in import KEYS_FILE, REPOSITORY, FeedOnStandIn, row
from tests.shared.task_api import dag_run

ASKED = "Reason given: prices were reset (asked by vera)"
LIVE = {"generation": Param(1)}


@pytest.fixture
def published(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> FeedOnStandIn:
    for module in (erasure_tasks, retirement_tasks, rollback_tasks, delivery_sensor, feed_check):
        monkeypatch.setattr(module, "open_feed_services", lambda *arguments: world.services)
    world.publish(world.land(7, [row(7, 1), row(7, 2)]))
    return world


def setup_of(world: FeedOnStandIn) -> FeedSetup:
    deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
    return FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))


def context(form: dict[str, Any], results: dict[str, Any], resolve_task: str = RESOLVE_ERASURE) -> Any:
    with DAG("feed_by_hand", schedule=None) as dag:
        EmptyOperator(task_id=resolve_task)
    ti = SimpleNamespace(xcom_pull=lambda task_ids: results.get(task_ids), map_index=-1)
    run = dag_run("feed_by_hand", "by-hand", triggering_user_name="vera")
    return {"ti": ti, "dag": dag, "params": form, "dag_run": run}


def defaults(params: dict[str, Any]) -> dict[str, Any]:
    return {name: param.value for name, param in params.items()}


def test_an_erasure_shows_its_rows_and_passes_its_spec_on(published: FeedOnStandIn) -> None:
    published.services.store.put(published.services.layout.keys_to_erase(KEYS_FILE), "product_id\n2\n")
    form = {**defaults(erasure_params()), "keys_file": KEYS_FILE, "reason": "request 17"}
    shown = erasure_tasks.show_erasure(setup_of(published), context(form, {}))
    assert (shown["keys"], sum(shown["rows"].values())) == (1, 1)
    results = {RESOLVE_ERASURE: erasure_tasks.resolve(setup_of(published), context(form, {}))}
    spec = pull_spec(context(form, results))
    assert (spec.generation, spec.reason) == (2, "request 17 (asked by vera)")
    workload = read_workload(published.services, spec.attempt)
    assert size_run(workload, SparkSize(), Runner.SERVERLESS).executors >= 1


def test_a_form_without_a_file_fails_without_a_retry(published: FeedOnStandIn) -> None:
    with pytest.raises(AirflowFailException, match="There is no file of keys"):
        erasure_tasks.show_erasure(setup_of(published), context(defaults(erasure_params()), {}))


def test_watch_and_watchdog_leave_a_retired_feed_alone(published: FeedOnStandIn) -> None:
    form = {**defaults(retirement_tasks.retirement_params()), "target": "drop", "reason": "over"}
    assert "is **dropped**" in retirement_tasks.show_retirement(setup_of(published), context(form, {}))["text"]
    assert retirement_tasks.retire(setup_of(published), context(form, {}))["target"] == "drop"
    published.land_files(8, {})
    published.services.store.delete_prefix(published.services.layout.arrivals)
    sensor = DeliverySensor(task_id="notice_delivery", setup=setup_of(published))
    assert sensor.resume_after_interval(context({}, {})) == []
    assert published.services.arrivals.deliveries() == []
    assert feed_check.check_feed(setup_of(published)) == []
    feed_check.refresh_verdict(setup_of(published))
    assert list(published.services.store.objects(published.services.layout.freshness)) == []


@dataclass(frozen=True)
class Preview:
    text: str = "what would happen"
    generation: int = 1
    live_generation: int = 1
    refused: tuple[str, ...] = ()


def show_existing(setup: FeedSetup, context: Any) -> Any:
    return bootstrap_tasks.ShowExistingOperator(task_id="show_existing", setup=setup).execute(context)


def show_difference(setup: FeedSetup, context: Any) -> Any:
    return rollback_tasks.ShowDifferenceOperator(task_id="show_difference", setup=setup).execute(context)


def test_a_rollback_waits_for_a_run_that_is_at_work_but_not_for_ever(published: FeedOnStandIn) -> None:
    spec = published.resolve(published.land(8, [row(8, 1)]), run_id="at-work")
    published.running.add("at-work")
    form = context({"generation": 1, "reason": "bad"}, {})
    form["dag_run"].start_date = published.now()
    with pytest.raises(TaskDeferred) as deferred:
        show_difference(setup_of(published), form)
    assert deferred.value.method_name == "show_after_interval"
    form["dag_run"].start_date = published.now() - timedelta(minutes=121)  # the SLA is 60 minutes
    with pytest.raises(AirflowFailException, match=r"run \[at-work\].*mark it as failed"):
        show_difference(setup_of(published), form)
    published.services.current.release(spec.attempt)
    assert show_difference(setup_of(published), form)["restored_generation"] == 1


@pytest.mark.parametrize(
    ("tasks", "preview", "show", "params"),
    [
        (bootstrap_tasks, "preview_bootstrap", show_existing, bootstrap_params),
        (erasure_tasks, "preview_erasure", erasure_tasks.show_erasure, erasure_params),
        (rebuild_tasks, "plan_rebuild", rebuild_tasks.show_rebuild, rebuild_tasks.rebuild_params),
        (retirement_tasks, "preview_retirement", retirement_tasks.show_retirement, retirement_tasks.retirement_params),
        (rollback_tasks, "preview_rollback", show_difference, lambda: {**rollback_params(), **LIVE}),
    ],
    ids=["bootstrap", "erase", "rebuild", "retire", "rollback"],
)
def test_whoever_approves_reads_who_asked_and_why(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, tasks: Any, preview: str, show: Any, params: Any
) -> None:
    monkeypatch.setattr(tasks, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(tasks, preview, lambda *_, **__: Preview())
    shown = show(setup_of(world), context({**defaults(params()), "reason": "prices were reset"}, {}))
    assert shown["text"] == f"what would happen\n\n{ASKED}"


def test_whoever_approves_a_backfill_reads_who_asked_and_why(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill_tasks, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(backfill_tasks, "open_gcs_bucket", lambda connection, bucket: world.services.store)
    monkeypatch.setattr(backfill_tasks, "describe_backfill", lambda *_: "what would happen")
    form = {**defaults(backfill_params()), "archive": "gs://state/archive", "reason": "prices were reset"}
    assert backfill_tasks.show_backfill(setup_of(world), context(form, {})) == f"what would happen\n\n{ASKED}"
