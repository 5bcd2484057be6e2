"""A retried task attaches to its Spark run, reuses it, or starts the next one; a cleared task runs Spark again."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from airflow.sdk.exceptions import TaskDeferred

from dedup_clone.contract.errors import DeliveryRefused, SparkUnavailable
from dedup_clone.orchestration.runners import cloud_calls, engine_dispatch, remote_operator
from dedup_clone.orchestration.runners.remote_operator import stop_spark_runs
from dedup_clone.orchestration.runners.runner_config import open_runner
from dedup_clone.orchestration.runners.spark_run import RunNames, SparkRunState
from tests.contract.dataproc.conftest import PROCEDURE_IS_SLOW, RUNNERS, Simulate
from tests.contract.dataproc.fake import rules
from tests.contract.dataproc.fake.faults import Fault, Refused, WorkerKilled
from tests.contract.dataproc.fake.service_state import TIMED_OUT
from tests.contract.dataproc.fake.services import BATCH_STATES, JOB_STATES

FIRST = "dc-worked-example-00000007-abc123-c0-1"


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_worker_killed_between_submit_and_answer_leaves_a_run_that_the_retry_attaches_to(
    runner: str, fakes, simulate: Simulate
) -> None:
    submit = {"serverless": "CreateBatch", "cluster": "SubmitJob", "own_cluster": "SubmitJob"}.get(runner, "InsertJob")
    fake = fakes(runner)
    fake.faults.plan([Fault(submit, 1, accepted=True, kills=True)])
    done = simulate(runner).run()
    assert (done.state, done.tries, done.result) == ("success", 2, FIRST)
    assert isinstance(done.errors[0], WorkerKilled)
    assert list(fake.state.runs) == [FIRST]


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_task_that_runs_again_reuses_the_run_that_ended_well(runner: str, fakes, simulate: Simulate) -> None:
    fake, task = fakes(runner), simulate(runner)
    assert task.run().result == task.run().result == FIRST
    assert list(fake.state.runs) == [FIRST]


@pytest.mark.parametrize("slowness", [0, 3])
def test_a_run_that_refused_every_delivery_fails_the_task_at_once(
    slowness: int, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With and without a deferral."""
    fake = fakes("serverless", slowness=slowness)

    def refuse(services: object, attempt: str) -> None:
        raise DeliveryRefused("Every delivery was refused")

    monkeypatch.setattr(engine_dispatch, "end_if_all_refused", refuse)
    done = simulate("serverless").run()
    assert (done.state, done.tries, done.error) == ("failed", 1, "Every delivery was refused")
    assert [run.name for run in fake.state.succeeded] == [FIRST]


@pytest.mark.parametrize("runner", PROCEDURE_IS_SLOW)
def test_a_cleared_task_runs_spark_again(runner: str, fakes, simulate: Simulate) -> None:
    fake = fakes(runner)
    assert simulate(runner).run().state == "success"
    assert simulate(runner, clear_number=1).run().result == "dc-worked-example-00000007-abc123-c1-1"
    assert len(fake.state.succeeded) == 2


@pytest.mark.parametrize("runner", PROCEDURE_IS_SLOW)
def test_a_cleared_task_stops_what_is_still_at_work_from_before(runner: str, fakes, simulate: Simulate) -> None:
    fake = fakes(runner, slowness=9)
    simulate(runner).deferral()
    assert simulate(runner, clear_number=1).run().state == "success"
    assert [run.name for run in fake.state.succeeded] == ["dc-worked-example-00000007-abc123-c1-1"]
    assert (fake.state.active, fake.state.undeleted_clusters, fake.state.max_active) == ([], [], 1)


@pytest.mark.parametrize("runner", RUNNERS)
def test_marking_the_deferred_task_stops_its_run(runner: str, fakes, simulate: Simulate) -> None:
    fake, task = fakes(runner, slowness=9), simulate(runner)
    trigger = task.recreated(task.deferral().trigger)
    asyncio.run(trigger.on_kill())
    assert (fake.state.active, fake.state.undeleted_clusters) == ([], [])
    assert fake.state.succeeded == []


@pytest.mark.parametrize(
    ("runner", "states"),
    [
        ("serverless", ["PENDING", "RUNNING", "RUNNING", "CANCELLING", "CANCELLING", "CANCELLED"]),
        ("cluster", ["PENDING", "SETUP_DONE", "RUNNING", "CANCEL_PENDING", "CANCEL_STARTED", "CANCELLED"]),
    ],
)
def test_a_run_is_active_until_its_cancellation_is_done(
    runner: str, states: list[str], fakes, simulate: Simulate
) -> None:
    fake, task = fakes(runner, slowness=9), simulate(runner)
    task.deferral()
    run, service = fake.state.runs[FIRST], open_runner(task.operator().runner_config)
    run.polls, seen, words = 0, [], BATCH_STATES if runner == "serverless" else JOB_STATES
    for number in range(6):
        if number == 3:
            fake.state.cancel(FIRST)
        state = service.get_run(FIRST).state
        seen.append(run.state(*words))
        assert state == (SparkRunState.CANCELLED if number == 5 else SparkRunState.ACTIVE)
    assert seen == states


@pytest.mark.parametrize("runner", RUNNERS)
def test_marking_the_task_while_a_worker_is_at_it_stops_its_run(
    runner: str, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, task = fakes(runner, slowness=9), simulate(runner)
    operator = task.operator()
    task.tries = 1

    def interrupted(*_: object, **__: object) -> None:
        operator.on_kill()
        raise WorkerKilled

    monkeypatch.setattr(operator, "_push_links", interrupted)
    with pytest.raises(WorkerKilled):
        operator.execute(task.context())
    assert (fake.state.active, fake.state.undeleted_clusters) == ([], [])


@pytest.mark.parametrize("runner", PROCEDURE_IS_SLOW)
def test_a_run_cancelled_from_outside_fails_the_task_at_once(runner: str, fakes, simulate: Simulate) -> None:
    fake = fakes(runner, endings=[("cancelled", "by anna@example.com")])
    done = simulate(runner).run()
    assert (done.state, done.tries) == ("failed", 1)
    assert f"Spark run [{FIRST}] was cancelled from outside (by anna@example.com)" in done.error
    assert "from its first task" in done.error
    assert fake.state.undeleted_clusters == []
    assert simulate(runner, clear_number=1).run().state == "success"


@pytest.mark.parametrize("runner", PROCEDURE_IS_SLOW)
def test_a_run_that_takes_too_long_is_stopped(
    runner: str, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_operator, "DEFAULT_TIMEOUT", timedelta(0))
    fake = fakes(runner, slowness=10_000)
    done = simulate(runner).run()
    assert (done.state, done.tries) == ("failed", 1)
    assert f"stopped: {FIRST}" in done.error
    assert "Raise [spark.max_executors]" in done.error
    assert (fake.state.active, fake.state.undeleted_clusters) == ([], [])


@pytest.mark.parametrize("runner", PROCEDURE_IS_SLOW)
def test_a_run_that_succeeds_before_the_task_can_stop_it_counts(runner: str, fakes, simulate: Simulate) -> None:
    fakes(runner)
    task = simulate(runner)
    deferred = task.deferral()
    while True:
        event = asyncio.run(task.run_trigger(task.recreated(deferred.trigger)))
        if open_runner(task.operator().runner_config).get_run(FIRST).state is SparkRunState.SUCCEEDED:
            break
        with pytest.raises(TaskDeferred) as again:
            task.operator().resume(task.context(), event.payload)  # an own cluster is ready for the job
        deferred = again.value
    assert task.operator().resume(task.context(), {**event.payload, "reason": "timed_out"}) == FIRST


@pytest.mark.parametrize("runner", ["serverless", "own_cluster", "procedure"])
def test_a_run_that_the_service_ended_at_its_limit_fails_like_one_that_the_task_stopped(
    runner: str, fakes, simulate: Simulate
) -> None:
    """The task's own limit begins anew with each try, so the service's may be reached first."""
    fake = fakes(runner, endings=[(TIMED_OUT, "")])
    done = simulate(runner).run()
    assert (done.state, done.tries, list(fake.state.runs)) == ("failed", 1, [FIRST])
    assert f"Spark was not done within 60 minutes (Google stopped {FIRST}. Its log: https://" in done.error
    assert "Raise [spark.max_executors]" in done.error


@pytest.mark.parametrize("runner", RUNNERS)
def test_states_that_the_library_does_not_know_and_absent_times_change_nothing(
    runner: str, fakes, simulate: Simulate
) -> None:
    fake = fakes(runner, is_newer=True, slowness=3, endings=[("failed", "no such file")])
    assert simulate(runner).run().state == "success"
    assert [run.outcome for run in fake.state.runs.values()] == ["failed", "succeeded"]
    assert fake.state.undeleted_clusters == []


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_run_in_a_state_that_the_library_does_not_know_is_stopped(runner: str, fakes, simulate: Simulate) -> None:
    fake, run = fakes(runner, is_newer=True, slowness=9), simulate(runner)
    run.deferral()
    assert stop_spark_runs(run.operator(), run.context()) == [FIRST]
    assert (fake.state.active, fake.state.undeleted_clusters) == ([], [])


@pytest.mark.parametrize(("runner", "poll"), [("serverless", "GetBatch"), ("cluster", "GetJob")])
def test_a_service_that_is_gone_for_long_costs_a_try_and_no_run(
    runner: str, poll: str, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cloud_calls, "_RETRY_S", 0.01)
    fake, task = fakes(runner, slowness=3), simulate(runner)
    deferred = task.deferral()
    fake.faults.always(Fault(poll, 0))
    with pytest.raises(SparkUnavailable, match="The task tries again by itself"):
        task.resume(deferred)
    fake.faults.clear()
    assert task.run().state == "success"
    assert list(fake.state.runs) == [FIRST]


def test_a_cluster_that_was_deleted_before_its_job_is_made_again(fakes, simulate: Simulate) -> None:
    fake, task = fakes("own_cluster"), simulate("own_cluster")
    deferred = task.deferral()
    fake.state.clusters.pop(FIRST)
    assert task.resume(deferred) == FIRST
    assert len(fake.state.succeeded) == 1
    assert fake.state.undeleted_clusters == []


def test_a_cluster_that_cannot_be_made_is_deleted_and_the_next_one_tried(fakes, simulate: Simulate) -> None:
    fake = fakes("own_cluster", created_as=["ERROR", "ERROR"])
    done = simulate("own_cluster").run()
    assert (done.state, done.tries) == ("success", 3)
    assert "Insufficient 'CPUS' quota" in str(done.errors[0])
    assert "gcloud compute regions describe europe-west1 --project=my-project" in str(done.errors[0])
    assert fake.state.undeleted_clusters == []


@pytest.mark.parametrize("state", ["REPAIRING", "STARTING", "UPDATING", "ERROR_DUE_TO_UPDATE"])
def test_a_cluster_gets_its_job_as_soon_as_it_accepts_some(state: str, fakes, simulate: Simulate) -> None:
    """Source: Dataproc's REST reference, ClusterStatus.State."""
    fake, task = fakes("own_cluster", created_as=[state], slowness=9), simulate("own_cluster")
    task.deferral()
    fake.state.clusters[FIRST].state = state
    found = open_runner(task.operator().runner_config).get_run(FIRST)
    accepts = state in ("UPDATING", "ERROR_DUE_TO_UPDATE")
    assert found.state is (SparkRunState.READY if accepts else SparkRunState.PREPARING)
    done = task.run()
    assert (done.state, done.errors, fake.state.undeleted_clusters) == ("success", [], [])


@pytest.mark.parametrize("state", ["STOPPING", "STOPPED", "DELETING"])
def test_a_cluster_that_somebody_stops_or_deletes_is_replaced_by_the_next(
    state: str, fakes, simulate: Simulate
) -> None:
    fake = fakes("own_cluster", created_as=[state])
    done = simulate("own_cluster").run()
    assert (done.state, done.tries, fake.state.undeleted_clusters) == ("success", 2, [])
    assert f"cluster [{FIRST}] is {state} before its job was submitted" in str(done.errors[0])


@pytest.mark.parametrize(
    "place", ["other-project", "us-east1", "projects/other/locations/europe-west1/batches/b", "projects/my-project"]
)
def test_the_fake_refuses_other_projects_and_regions(place: str) -> None:
    with pytest.raises(Refused, match="another project or region"):
        rules.check_place(place)


def test_a_follower_is_found_even_where_the_first_cluster_left_no_trace(fakes, simulate: Simulate) -> None:
    fake, task = fakes("own_cluster", created_as=["ERROR"], slowness=3), simulate("own_cluster")
    with pytest.raises(Exception, match="quota"):
        task.resume(task.deferral())
    task.deferral()  # the next name, for the first cluster is still being deleted
    fake.state.clusters.pop(FIRST)
    task.resume(task.deferral())
    assert len(fake.state.runs) == 1
    assert fake.state.undeleted_clusters == []


def test_links_and_size_are_shown_while_the_task_waits(fakes, simulate: Simulate) -> None:
    fakes("serverless")
    task = simulate("serverless")
    task.deferral()
    assert task.xcoms["spark_link_run"] == (
        f"https://console.cloud.google.com/dataproc/batches/europe-west1/{FIRST}/summary?project=my-project"
    )
    assert FIRST in task.xcoms["spark_link_log"]
    assert task.xcoms["spark_link_spark_ui"] == f"https://spark.example/{FIRST}"
    assert task.xcoms["spark_size"]["executors"] == 2


def test_airflow_itself_finds_the_links_at_the_end(fakes, simulate: Simulate) -> None:
    fakes("cluster", slowness=0)
    task = simulate("cluster")
    task.tries, operator = 1, task.operator()
    operator.execute(task.context())
    links = {link.name: link.get_link(operator, ti_key=None) for link in operator.operator_extra_links}
    page = f"https://console.cloud.google.com/dataproc/jobs/{FIRST}/monitoring?region=europe-west1&project=my-project"
    assert links == {"Spark run": page, "Driver log": page, "Spark UI": f"https://spark.example/{FIRST}"}


@pytest.mark.parametrize("feed", ["a", "product_attributes", "x" * 63, "a_" * 31])
def test_names_fit_the_rules_of_all_services(feed: str) -> None:
    name = RunNames(feed, "99999999-abc123", 12).name(20)
    for rule in (rules.BATCH_ID, rules.JOB_ID, rules.CLUSTER_NAME):
        rules.check_name(rule, name)
