"""The operators of BigQuery jobs, when a job failed: retried if that may help, else not."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dedup_clone.orchestration.shared import bigquery_operators
from dedup_clone.orchestration.shared.bigquery_operators import AttemptJobOperator
from dedup_clone.publish.attempt_jobs import query_configuration
from dedup_clone.publish.step_specs import PublishSpec
from testkit.feed_on_stand_in import FeedOnStandIn, job_id, row
from tests.contract.feed_setups import setup_of


@pytest.fixture
def spec(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch) -> PublishSpec:
    spec = world.resolve(world.land(7, [row(7, 1)]))
    monkeypatch.setattr(bigquery_operators, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(bigquery_operators, "pull_spec", lambda context: spec)
    return spec


def resume(world: FeedOnStandIn, spec: PublishSpec, message: str) -> None:
    """The task goes on after its trigger reported that the job failed."""
    operator = AttemptJobOperator(task_id="swap_target", setup=setup_of(world), step="swap", configuration={})
    event: dict[str, Any] = {"status": "error", "message": message}
    operator.execute_complete({}, event)  # type: ignore[typeddict-item]


def test_a_swap_that_is_refused_is_not_tried_again(world: FeedOnStandIn, spec: PublishSpec) -> None:
    services, name = world.services, job_id(spec, "swap", 1)
    services.warehouse.jobs.start(name, query_configuration(services, "swap", "SELECT ERROR('somebody else')", {}))
    world.wait_for_all_jobs()
    with pytest.raises(AirflowFailException, match=rf"\[{name}\] failed.*somebody else"):
        resume(world, spec, "somebody else")


def test_a_job_that_bigquery_failed_is_tried_again(world: FeedOnStandIn, spec: PublishSpec) -> None:
    services, name = world.services, job_id(spec, "swap", 1)
    fault = {"match": {"job_id": name}, "effect": "error", "reason": "backendError", "message": "try again"}
    world.add_fault(fault)
    services.warehouse.jobs.start(name, query_configuration(services, "swap", "SELECT 1", {}))
    world.wait_for_all_jobs()
    with pytest.raises(AirflowException, match="try again") as raised:
        resume(world, spec, "try again")
    assert not isinstance(raised.value, AirflowFailException)
