"""A retried task attaches to its Spark run, reuses it, or starts the next one; a cleared task runs Spark again."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import replace
from datetime import UTC, timedelta
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from google.api_core.exceptions import ServiceUnavailable

from dedup_clone.contract.errors import DeliveryRefused, LeaseLost
from dedup_clone.contract.records import from_json
from dedup_clone.orchestration import step
from dedup_clone.orchestration.runners import dedup
from dedup_clone.orchestration.runners import open_runner as open_runner_module
from dedup_clone.orchestration.runners.open_runner import open_runner, runner_arguments
from dedup_clone.orchestration.runners.spark_run import SparkRunState, run_name
from dedup_clone.settings.spark_settings import SparkSize
from testkit.airflow import ProcessKilled, recreated
from tests.contract.dataproc.airflow_simulator import STORED, WORK
from tests.contract.dataproc.conftest import RUNNERS, Simulate
from tests.contract.dataproc.fake import rules
from tests.contract.dataproc.fake.faults import Fault
from tests.contract.dataproc.fake.services import BATCH_STATES, JOB_STATES

FIRST = "dc-worked-example-00000007-abc123-1"
SECOND = "dc-worked-example-00000007-abc123-2"
THIRD = "dc-worked-example-00000007-abc123-3"


def assert_nothing_is_at_work(fake) -> None:
    assert fake.state.active == []


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_task_that_is_cleared_while_it_waits_runs_spark_again(runner: str, fakes, simulate: Simulate) -> None:
    """The service may still be stopping the first run, to which the second try then attaches in vain."""
    fake, task = fakes(runner, slowness=9), simulate(runner)
    asyncio.run(recreated(task.deferral().trigger).on_kill())
    task.clear()
    assert task.run().result in (SECOND, THIRD)
    assert [run.outcome for run in fake.state.runs.values()] == ["cancelled", "succeeded"]
    assert fake.state.max_active == 1
    task.clear()
    assert task.run().state == "success", "a run that succeeded is used again"
    assert len(fake.state.runs) == 2


@pytest.mark.parametrize("runner", RUNNERS)
def test_what_all_tries_of_a_cleared_task_started_is_stopped_when_the_publish_fails(
    runner: str, fakes, simulate: Simulate
) -> None:
    fake, task = fakes(runner, slowness=99), simulate(runner)
    task.tries = 10  # as many as the task has before it is cleared
    task.clear()
    task.deferral()
    assert [run.name for run in fake.state.active] == ["dc-worked-example-00000007-abc123-11"]
    task.stop_spark(task.context())
    assert_nothing_is_at_work(fake)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_task_that_wakes_up_when_its_attempt_has_ended_starts_no_run(
    runner: str, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(attempt: str) -> None:
        raise LeaseLost(f"[{attempt}] has ended")

    fake, task = fakes(runner), simulate(runner)
    monkeypatch.setattr(step.open_feed_services(task.setup).current, "require_intent", refuse)
    task.run()
    assert (task.error, fake.state.runs) == ("[00000007-abc123] has ended", {})


@pytest.mark.parametrize("slowness", [0, 3], ids=["at once", "after a deferral"])
def test_a_run_that_refused_every_delivery_fails_the_task_at_once(
    slowness: int, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = fakes("serverless", slowness=slowness)

    def refuse(services: object, attempt: str) -> None:
        raise DeliveryRefused("Every delivery was refused")

    monkeypatch.setattr(dedup, "end_if_all_refused", refuse)
    done = simulate("serverless").run()
    assert (done.state, done.tries, done.error) == ("failed", 1, "Every delivery was refused")
    assert [run.name for run in fake.state.succeeded] == [FIRST]


@pytest.mark.parametrize("is_newer", [False, True], ids=["known state", "state that the library does not know"])
@pytest.mark.parametrize("runner", RUNNERS)
def test_marking_the_task_stops_its_run(
    runner: str, is_newer: bool, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it is deferred; while a worker is at it; and when the DAG stops it."""
    fake, task = fakes(runner, slowness=9, is_newer=is_newer), simulate(runner)
    asyncio.run(recreated(task.deferral().trigger).on_kill())
    assert_nothing_is_at_work(fake)
    assert fake.state.succeeded == []
    fake, task = fakes(runner, slowness=9, is_newer=is_newer), simulate(runner)
    operator, task.tries = task.operator(), 1

    def interrupted(*_: object, **__: object) -> None:
        operator.on_kill()
        raise ProcessKilled

    with monkeypatch.context() as patch:
        patch.setattr(dedup, "_show", interrupted)
        with pytest.raises(ProcessKilled):
            operator.execute(task.context())
    assert_nothing_is_at_work(fake)
    fake, task = fakes(runner, slowness=9, is_newer=is_newer), simulate(runner)
    task.deferral()
    task.stop_spark(task.context())
    assert_nothing_is_at_work(fake)


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
    run, service = fake.state.runs[FIRST], open_runner(**runner_arguments(task.setup))
    run.polls, words = 0, BATCH_STATES if runner == "serverless" else JOB_STATES
    for number, state in enumerate(states):
        if number == 3:
            fake.state.cancel(FIRST)
        found = service.get_run(FIRST).state
        assert run.state(*words) == state
        assert found == (SparkRunState.CANCELLED if state == "CANCELLED" else SparkRunState.ACTIVE)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_run_that_is_cancelled_from_outside_fails_the_task_at_once(runner: str, fakes, simulate: Simulate) -> None:
    fake, task = fakes(runner, endings=[("cancelled", "by anna@example.com")]), simulate(runner)
    assert (task.run().state, task.tries) == ("failed", 1)
    assert f"Spark run [{FIRST}] was cancelled from outside" in task.error
    assert "by anna@example.com" in task.error
    assert_nothing_is_at_work(fake)
    task.clear()
    assert task.run().result == SECOND


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_run_that_takes_too_long_is_stopped(
    runner: str, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count()
    for module in (dedup, open_runner_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: time.time() + 3600 * next(hours)))
    fake = fakes(runner, slowness=10_000)
    done = simulate(runner).run()
    assert (done.state, done.tries) == ("failed", 1)
    assert f"stopped: {FIRST}" in done.error
    assert_nothing_is_at_work(fake)


def test_a_poll_that_fails_does_not_move_the_time_at_which_the_run_is_stopped(
    fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the service would end the run first, because of its time limit, as if a person had cancelled it."""
    now = [0.0]
    for module in (dedup, open_runner_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now[0]))
    fake, task = fakes("serverless", slowness=20), simulate("serverless")
    deferred = task.deferral()
    now[0] = 3599.0
    fake.faults.always(Fault("GetBatch", 0, "PERMISSION_DENIED"))
    event = asyncio.run(task.run_trigger(recreated(deferred.trigger)))
    fake.faults.clear()
    with pytest.raises(TaskDeferred) as again:
        task.operator().execute(task.context(), event.payload)
    now[0] = 3600.0
    with pytest.raises(AirflowFailException, match="Spark was not done by 01:00 UTC"):
        task.resume(again.value)
    assert_nothing_is_at_work(fake)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_later_try_that_attaches_to_a_run_stops_it_when_the_first_would_have(
    runner: str, fakes, simulate: Simulate
) -> None:
    """Also after the task was cleared. The service's own limit counts from the beginning of the run, too."""
    fake, task = fakes(runner, slowness=99), simulate(runner)
    task.deferral()
    fake.state.runs[FIRST].created_at -= timedelta(minutes=50)
    task.clear()
    left_s = task.deferral().trigger.timeout_at - time.time()
    assert left_s == pytest.approx(600, abs=60)
    fake.state.runs[FIRST].created_at -= timedelta(minutes=10)
    task.tries += 1
    end = fake.state.runs[FIRST].created_at.astimezone(UTC) + timedelta(minutes=60)
    with pytest.raises(AirflowFailException, match=f"Spark was not done by {end:%H:%M} UTC"):
        task.operator().execute(task.context())
    assert list(fake.state.runs) == [FIRST]
    assert_nothing_is_at_work(fake)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_run_that_no_task_watches_ends_ten_minutes_after_the_task_would_end_it(
    runner: str, fakes, simulate: Simulate
) -> None:
    fake = fakes(runner)
    simulate(runner).deferral()
    ((_, request),) = [made for made in fake.requests if made[0] in ("CreateBatch", "SubmitJob", "InsertJob")]
    if runner == "serverless":
        assert request.batch.environment_config.execution_config.ttl == timedelta(minutes=70)
    elif runner == "cluster":
        assert list(request.job.pyspark_job.args)[-2:] == ["--end-after-s", "4200"]
    else:
        assert request["jobTimeoutMs"] == "4200000"


def test_a_large_run_may_take_three_times_as_long_as_the_model_expects(
    fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """312e9 rows, 700 ns each, on 40 cores of which 70 % work, and 90 s to start: 7,890 s."""
    large = replace(WORK, newest_rows=312_000_000_000, dates=730)
    fake, task = fakes("serverless", slowness=99), simulate("serverless", size=SparkSize(max_executors=10))
    monkeypatch.setattr(dedup, "read_workload", lambda services, attempt: large)
    left_s = task.deferral().trigger.timeout_at - time.time()
    assert left_s == pytest.approx(23_670, abs=60)
    ((_, request),) = [made for made in fake.requests if made[0] == "CreateBatch"]
    assert request.batch.environment_config.execution_config.ttl == timedelta(seconds=24_270)


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_run_that_succeeds_before_the_task_can_stop_it_counts(runner: str, fakes, simulate: Simulate) -> None:
    fakes(runner)
    task = simulate(runner)
    event = asyncio.run(task.run_trigger(recreated(task.deferral().trigger)))
    assert task.operator().execute(task.context(), {**event.payload, "timeout_at": 0.0}) == FIRST


@pytest.mark.parametrize("runner", RUNNERS)
def test_states_that_the_library_does_not_know_and_absent_times_change_nothing(
    runner: str, fakes, simulate: Simulate
) -> None:
    fake = fakes(runner, is_newer=True, slowness=3, endings=[("failed", "no such file")])
    assert simulate(runner).run().state == "success"
    assert [run.outcome for run in fake.state.runs.values()] == ["failed", "succeeded"]
    assert_nothing_is_at_work(fake)


@pytest.mark.parametrize(("runner", "poll"), [("serverless", "GetBatch"), ("cluster", "GetJob")])
def test_a_service_that_is_gone_for_long_costs_a_try_and_no_run(
    runner: str, poll: str, fakes, simulate: Simulate
) -> None:
    fake, task = fakes(runner, slowness=3), simulate(runner)
    deferred = task.deferral()
    fake.faults.always(Fault(poll, 0))
    with pytest.raises(ServiceUnavailable):
        task.resume(deferred)
    fake.faults.clear()
    assert task.run().state == "success"
    assert list(fake.state.runs) == [FIRST]


@pytest.mark.parametrize(
    ("runner", "name", "address"),
    [
        ("serverless", "Dataproc Batch", f"/dataproc/batches/europe-west1/{FIRST}/monitoring?project=my-project"),
        ("cluster", "Dataproc Job", f"/dataproc/jobs/{FIRST}?region=europe-west1&project=my-project"),
        ("procedure", "BigQuery Job Detail", f"1smy-project!2s{FIRST}!3seurope-west1"),
    ],
)
def test_the_providers_link_leads_to_the_run_while_the_task_waits(
    runner: str, name: str, address: str, fakes, simulate: Simulate
) -> None:
    fakes(runner)
    task = simulate(runner)
    task.deferral()
    (link,) = [link for link in task.operator().operator_extra_links if link.name == name]
    assert link._format_link(**task.xcoms[link.xcom_key]).endswith(address)


@pytest.mark.parametrize("feed", ["a", "product_attributes", "x" * 63, "a_" * 31])
def test_names_fit_the_rules_of_all_services(feed: str) -> None:
    name = run_name(feed, "99999999-abc123", 120)
    for rule in (rules.BATCH_ID, rules.JOB_ID):
        rules.check_name(rule, name)


def stored_usd() -> float:
    ((name, text),) = STORED.items()
    assert name == "worked_example/attempts/00000007-abc123/spark_usage.json"
    return sum(from_json(dict[str, float], text, where=name).values())


PRICES = {"usd_per_dcu_hour": 0.07, "usd_per_vcpu_hour": 0.05}
NO_FILE = ("failed", "no such file")


@pytest.mark.parametrize(
    ("runner", "endings", "usd"),
    [
        ("serverless", [], 5 * 0.07),
        ("serverless", [NO_FILE] * 2, 15 * 0.07),
        ("serverless", [NO_FILE] * 9, 20 * 0.07),
        ("cluster", [], 12 * 0.05 / 60),  # twelve vCPUs for the minute that the service tells
        ("cluster", [NO_FILE] * 2, 3 * 12 * 0.05 / 60),
        ("procedure", [], 12 * 0.05 / 60),
    ],
)
def test_what_all_runs_of_an_attempt_used_is_stored_and_priced(
    runner: str, endings: list[tuple[str, str]], usd: float, fakes, simulate: Simulate
) -> None:
    fakes(runner, endings=[*endings])
    settings = RUNNERS[runner][1].model_copy(update=PRICES)
    done = simulate(runner, settings=settings).run()
    assert done.state == ("failed" if len(endings) > 3 else "success")
    assert stored_usd() == pytest.approx(usd)


def test_without_a_price_of_machines_their_cost_is_unknown(fakes, simulate: Simulate) -> None:
    fakes("cluster")
    simulate("cluster").run()
    assert STORED == {}
