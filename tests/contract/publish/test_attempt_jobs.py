"""One BigQuery job per attempt: a task that runs again attaches, reuses what ended well, or takes the next id."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.shared import bigquery_operators
from dedup_clone.orchestration.shared.bigquery_operators import AttemptJobOperator, LoadStagingOperator
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders
from dedup_clone.publish.step_specs import PublishSpec
from dedup_clone.settings.deployment import read_deployment
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn, job_id, row
from testkit.lost_answers import losing_answers
from tests.contract.publish.client_hook import ClientHook


class Attempt:
    """An attempt that is about to load, and the operator as Airflow would run it, any number of times."""

    def __init__(self, world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> None:
        self.world = world
        self.hook = ClientHook(world)
        monkeypatch.setattr(bigquery_operators, "BigQueryHook", lambda **_: self.hook)
        monkeypatch.setattr(bigquery_operators, "open_feed_services", lambda setup: world.services)
        deployment = read_deployment(REPOSITORY / "dags" / "profiles", {"DEDUP_CLONE_PROFILE": "local"})
        self.setup = FeedSetup(world.feed, deployment, find_folders(Path(REPOSITORY / "dags")))
        self.spec: PublishSpec = world.resolve(world.land(7, [row(7, 1)]))
        world.dedup.run(self.spec.request_uri)

    def run(self, operator: AttemptJobOperator) -> str:
        pull = SimpleNamespace(xcom_pull=lambda **_: to_plain(self.spec), xcom_push=lambda **_: None)
        dag = SimpleNamespace(has_task=lambda task_id: task_id == "resolve_publish")
        context: Any = {"ti": pull, "task_instance": pull, "task": operator, "dag": dag}
        return operator.execute(context)

    def load(self) -> str:
        return self.run(LoadStagingOperator(task_id="load_staging", setup=self.setup))

    def query(self, sql: str) -> str:
        configuration = {"query": {"query": sql, "useLegacySql": False}}
        return self.run(
            AttemptJobOperator(task_id="swap_target", setup=self.setup, step="swap", configuration=configuration)
        )


@pytest.fixture
def attempt(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    return Attempt(world, monkeypatch)


def test_the_job_is_recorded_and_staging_loaded(attempt: Attempt) -> None:
    name = attempt.load()
    assert name == job_id(attempt.spec, "load", 1)
    assert attempt.world.services.current.require_intent(attempt.spec.attempt).jobs == (name,)
    assert len(attempt.world.rows(attempt.world.feed.staging)) == 1


def test_a_task_that_runs_again_reuses_the_job_that_ended_well(attempt: Attempt) -> None:
    assert attempt.load() == attempt.load()
    assert attempt.hook.inserted == [job_id(attempt.spec, "load", 1)]


def test_a_job_is_made_once_and_waited_for_although_the_answer_to_its_insertion_is_lost(
    world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = Attempt(world, monkeypatch)
    with losing_answers(world.bigquery) as world.bigquery:
        attempt.hook = ClientHook(world)
        assert attempt.load() == job_id(attempt.spec, "load", 1)
        assert attempt.query("SELECT 1") == job_id(attempt.spec, "swap", 1)
    assert len(world.rows(world.feed.staging)) == 1


def test_a_failed_job_is_followed_by_the_next_id(attempt: Attempt) -> None:
    with pytest.raises(Exception, match="not yet"):
        attempt.query("ASSERT FALSE AS 'not yet'; SELECT 1;")
    assert attempt.query("SELECT 1") == job_id(attempt.spec, "swap", 2)
    assert attempt.world.services.current.require_intent(attempt.spec.attempt).jobs == (
        job_id(attempt.spec, "swap", 1),
        job_id(attempt.spec, "swap", 2),
    )


def test_without_the_lease_no_job_is_made_and_no_retry_tries_to(attempt: Attempt) -> None:
    attempt.world.services.current.release(attempt.spec.attempt)
    for run in (attempt.load, lambda: attempt.query("SELECT 1")):
        with pytest.raises(AirflowFailException, match="Clear the run from its first task"):
            run()
    assert attempt.hook.inserted == []
