"""Wrong region, missing role, exhausted quota, no such cluster: whether a retry can help, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.orchestration.runners.open_runner import open_runner, runner_arguments
from dedup_clone.settings.spark_settings import ClusterSettings, SparkSize
from tests.contract.dataproc.airflow_simulator import SPARK
from tests.contract.dataproc.conftest import RUNNERS, Simulate
from tests.contract.dataproc.fake.faults import Fault

SUBMITS = {"serverless": "CreateBatch", "cluster": "SubmitJob", "procedure": "InsertJob"}


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(("code", "tries"), [("PERMISSION_DENIED", 1), ("RESOURCE_EXHAUSTED", 10)])
def test_only_a_refusal_that_may_pass_is_tried_again(
    runner: str, code: str, tries: int, fakes, simulate: Simulate
) -> None:
    fake = fakes(runner)
    fake.faults.always(Fault(SUBMITS[runner], 0, code, message="Quota exceeded for CPUS" if tries > 1 else "denied"))
    done = simulate(runner).run()
    assert (done.state, done.tries) == ("failed", tries)
    assert ("Quota exceeded for CPUS" if tries > 1 else "denied") in done.error
    assert fake.state.runs == {}


@pytest.mark.parametrize(("name", "state", "tries"), [("nightly", "RUNNING", 1), ("shared", "STOPPED", 10)])
def test_a_cluster_that_does_not_exist_fails_at_once_and_one_that_is_stopped_may_start(
    name: str, state: str, tries: int, fakes, simulate: Simulate
) -> None:
    fake = fakes("cluster")
    fake.state.clusters["shared"].state = state
    settings = SPARK.model_copy(update={"cluster": ClusterSettings(name=name)})
    done = simulate("cluster", settings=settings).run()
    assert (done.state, done.tries) == ("failed", tries)
    assert name in done.error


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_failed_run_is_told_in_its_own_words_with_the_address_of_its_log(
    runner: str, fakes, simulate: Simulate
) -> None:
    fakes(runner, endings=[("failed", "Subnetwork 'spark' does not support Private Google Access")])
    done = simulate(runner).run()
    assert done.tries == 2
    assert "Subnetwork 'spark' does not support Private Google Access" in str(done.errors[0])
    assert "Its log: https://console.cloud.google.com/" in str(done.errors[0])


def test_a_property_that_the_service_refuses_fails_at_once_with_its_words(fakes, simulate: Simulate) -> None:
    fakes("serverless")
    size = SparkSize.model_construct(**{**SparkSize().model_dump(), "properties": {"spark.yarn.queue": "q"}})
    done = simulate("serverless", size=size).run()
    assert done.tries == 1
    assert "Attempted to set unsupported properties: [ spark:spark.yarn.queue ]" in done.error


def test_without_deployed_spark_code_nothing_is_submitted(fakes, simulate: Simulate, tmp_path: Path) -> None:
    fake, task = fakes("serverless"), simulate("serverless")
    (tmp_path / "spark_code.json").unlink()
    assert "make deploy" in task.run().error
    assert (task.tries, fake.state.runs) == (1, {})
    (tmp_path / "spark_code.json").write_text('{"main": "gs://code/main.py"}')
    assert simulate("serverless").run().state == "failed"


@pytest.mark.parametrize("runner", ["local", "kubernetes"])
def test_a_runner_without_an_api_of_google_is_not_taken_for_a_cluster(runner: str, fakes, simulate: Simulate) -> None:
    fakes("cluster")
    arguments = {**runner_arguments(simulate("cluster").setup), "runner": runner}
    with pytest.raises((AssertionError, ValueError), match=runner):
        open_runner(**arguments)
