"""Wrong region, missing role, exhausted quota, no such cluster: whether a retry can help, and what to do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from unittest.mock import Mock

import pytest
import requests
from google.auth.exceptions import TransportError

from dedup_clone.contract.errors import ConfigurationError, SparkUnavailable
from dedup_clone.orchestration.runners import cloud_calls
from dedup_clone.orchestration.runners.error_hints import ErrorHints
from dedup_clone.orchestration.runners.runner_config import open_runner
from dedup_clone.settings.spark_settings import ClusterSettings, SparkSettings, SparkSize
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
    command = "gcloud compute regions describe europe-west1" if tries > 1 else "gcloud projects add-iam-policy-binding"
    assert command in done.error
    assert fake.state.runs == {}


def test_a_region_without_dataproc_fails_at_once(fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_calls, "_RETRY_S", 0.2)
    fake = fakes("serverless")
    message = "DNS resolution failed for europe-wes1-dataproc.googleapis.com:443: Domain name not found"
    fake.faults.always(Fault("GetBatch", 0, message=message))
    task = simulate("serverless")
    task.tries = 1
    with pytest.raises(Exception, match=r"Region \[europe-west1\] has no Dataproc"):
        task.run_try()


@pytest.mark.parametrize("lost", [requests.ConnectionError, requests.Timeout, TransportError])
def test_a_lost_connection_to_bigquery_may_be_tried_again(lost: type[Exception]) -> None:
    """So the trigger goes on polling the run, and the task is not failed."""
    answers = Mock(side_effect=[lost("reset by peer"), "the job"])
    assert cloud_calls.call_options()["retry"](answers)() == "the job"
    with (
        pytest.raises(SparkUnavailable),
        cloud_calls.translate_errors(ErrorHints("my-project", SPARK), "BigQuery job [name]", ignored=KeyError),
    ):
        raise lost("reset by peer")


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


@pytest.mark.parametrize(
    ("runner", "message", "tries", "said"),
    [
        ("serverless", "Subnetwork 'spark' does not support Private Google Access", 1, "subnets update spark --region"),
        ("serverless", "Service account lacks permission dataproc.tasks.lease", 1, "--role=roles/dataproc.worker"),
        ("cluster", "Task preempted", 2, "Machines were preempted"),
    ],
)
def test_a_run_that_fails_is_repeated_unless_the_reason_stays(
    runner: str, message: str, tries: int, said: str, fakes, simulate: Simulate
) -> None:
    fakes(runner, endings=[("failed", message)])
    done = simulate(runner).run()
    assert done.tries == tries
    assert said in str(done.errors[0])


def test_the_hint_names_the_project_of_a_shared_vpc(fakes, simulate: Simulate) -> None:
    fakes("serverless", endings=[("failed", "Subnetwork 'shared' does not support Private Google Access")])
    settings = SPARK.model_copy(update={"subnetwork": "projects/host/regions/europe-west1/subnetworks/shared"})
    done = simulate("serverless", settings=settings).run()
    assert "subnets update shared --region=europe-west1" in done.error
    assert "--project=host" in done.error


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


@pytest.mark.parametrize(("runner", "missing"), [("serverless", "region"), ("procedure", "procedure_connection")])
def test_a_profile_without_a_setting_of_the_runner_is_refused(runner: str, missing: str, simulate: Simulate) -> None:
    with pytest.raises(ConfigurationError, match=rf"spark\.{missing}"):
        simulate(runner, settings=SparkSettings()).operator()


# As users reported them (GitHub issues of mrjob, vertex-ai-samples, python-docs-samples, plugin-gcp, streamify,
# ai-on-gke, dbt-bigquery, cudf-spark, terraform-provider-google, magic-modules); the hint; whether it is permanent.
QUOTA, CAPACITY, WORKER = "A quota of project", "too few machines in region", "--role=roles/dataproc.worker"
REPORTED = [
    ("Quota exceeded for quota metric 'logging.googleapis.com/read_requests' and limit "
     "'ReadRequestsPerMinutePerProject' of service 'logging.googleapis.com' for consumer 'project_number:42'.",
     "the requests of this minute", False),
    ("Insufficient 'DISKS_TOTAL_GB' quota. Requested 1200.0, available 500.0.", QUOTA, False),
    ("Insufficient 'N2_CPUS' quota. Requested 12.0, available 0.0.", QUOTA, False),
    ("Multiple validation errors: - Insufficient 'CPUS' quota. Requested 6.0, available 4.0.", QUOTA, False),
    ("Error Code: UNAVAILABLE, errorSource: COMPUTE_ENGINE, Error Message: The zone 'projects/p/zones/x' does not have "
     "enough resources available to fulfill the request. Try a different zone.", CAPACITY, False),
    ("A e2-standard-2 VM instance is currently unavailable in the europe-west4-a zone.", CAPACITY, False),
    ("code: ZONE_RESOURCE_POOL_EXHAUSTED", CAPACITY, False),
    ("java.net.UnknownHostException: storage.googleapis.com: Temporary failure in name resolution", "resolved", False),
    ("Driver compute node failed to initialize for batch in 600 seconds", "driver did not start in time", False),
    ("User not authorized to act as service account: iam.serviceAccounts.actAs", "add-iam-policy-binding spark@", True),
    ("Cloud Dataproc API has not been used in project my-project before or it is disabled.", "services enable", True),
    ("User not authorized to act as service account '42-compute@developer.gserviceaccount.com'. To act as a service "
     "account, user must have one of [Owner, Editor, Service Account Actor] roles.", "may not run Spark as", True),
    ("Subnetwork 'default' does not support Private Google Access which is required for Dataproc clusters when "
     "'internal_ip_only' is set to 'true'.", "Subnetwork [spark] has no Private Google Access", True),
    ("Network 'default' requires explicit subnetworks for instance creation.", "[spark.subnetwork]", True),
    ("The resource 'projects/CURRENT-PROJECT/regions/us-east1/subnetworks/xpn-us-east1-shared1' was not found",
     "Subnetwork [spark] is not in project [my-project]", True),
    ("Permissions are missing for the default service account", WORKER, True),
    ("Node groups are not allowed to be used without staging bucket permissions (storage.objects.get) for the vm "
     "service account.", WORKER, True),
]  # fmt: skip


@pytest.mark.parametrize(("message", "said", "permanent"), REPORTED)
def test_errors_that_users_reported_get_the_right_hint(message: str, said: str, permanent: bool) -> None:
    hint = ErrorHints("my-project", SPARK).for_message(message)
    assert hint is not None
    assert said in hint.text
    assert hint.permanent is permanent


@pytest.mark.parametrize("runner", ["local", "kubernetes"])
def test_a_runner_without_an_api_of_google_is_not_taken_for_a_cluster(runner: str, fakes, simulate: Simulate) -> None:
    fakes("cluster")
    config = dataclasses.replace(simulate("cluster").operator().runner_config, runner=runner)
    with pytest.raises((AssertionError, ValueError), match=runner):
        open_runner(config)
