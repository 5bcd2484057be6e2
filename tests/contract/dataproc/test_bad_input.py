"""Wrong region, missing role, exhausted quota, no such cluster: the error says which, where, and what to do."""

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
from tests.contract.dataproc.airflow_simulator import OWN_CLUSTER, RETRIES, SPARK
from tests.contract.dataproc.conftest import PROCEDURE_IS_SLOW, RUNNERS, Simulate
from tests.contract.dataproc.fake.faults import Fault

SUBMITS = {
    "serverless": "CreateBatch",
    "cluster": "SubmitJob",
    "own_cluster": "CreateCluster",
    "procedure": "InsertJob",
}


def refused(fakes, simulate: Simulate, runner: str, code: str, message: str):
    fake = fakes(runner)
    fake.faults.always(Fault(SUBMITS[runner], 0, code, message=message))
    done = simulate(runner).run()
    assert done.state == "failed"
    assert fake.state.runs == {}
    assert fake.state.undeleted_clusters == []
    return done


@pytest.mark.parametrize("runner", RUNNERS)
def test_a_missing_role_fails_at_once_with_the_command_that_grants_it(runner: str, fakes, simulate: Simulate) -> None:
    done = refused(fakes, simulate, runner, "PERMISSION_DENIED", "Permission 'dataproc.batches.create' denied")
    assert done.tries == 1
    assert "gcloud projects add-iam-policy-binding my-project" in done.error
    assert "Permission 'dataproc.batches.create' denied" in done.error


@pytest.mark.parametrize(
    ("message", "command"),
    [
        (
            "User not authorized to act as service account: iam.serviceAccounts.actAs",
            "gcloud iam service-accounts add-iam-policy-binding spark@my-project.iam.gserviceaccount.com",
        ),
        (
            "Cloud Dataproc API has not been used in project my-project before or it is disabled.",
            "gcloud services enable dataproc.googleapis.com",
        ),
    ],
)
def test_other_refusals_of_rights_name_their_own_command(message: str, command: str, fakes, simulate: Simulate) -> None:
    done = refused(fakes, simulate, "serverless", "PERMISSION_DENIED", message)
    assert done.tries == 1
    assert command in done.error


@pytest.mark.parametrize("runner", PROCEDURE_IS_SLOW)
def test_an_exhausted_quota_is_retried_and_the_error_has_the_command_that_shows_it(
    runner: str, fakes, simulate: Simulate
) -> None:
    done = refused(fakes, simulate, runner, "RESOURCE_EXHAUSTED", "Quota exceeded for CPUS")
    assert done.tries == RETRIES + 1
    assert "gcloud compute regions describe europe-west1 --project=my-project" in done.error
    assert "[spark.max_executors]" in done.error


def test_a_region_without_dataproc_fails_at_once(fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_calls, "_RETRY_S", 0.2)
    fake = fakes("serverless")
    message = "DNS resolution failed for europe-wes1-dataproc.googleapis.com:443: Domain name not found"
    fake.faults.always(Fault("GetBatch", 0, message=message))
    task = simulate("serverless")
    task.tries = 1
    with pytest.raises(Exception, match=r"Region \[europe-west1\] has no Dataproc.*gcloud compute regions list"):
        task.run_try()


@pytest.mark.parametrize("lost", [requests.ConnectionError, requests.Timeout, TransportError])
def test_a_lost_connection_to_bigquery_may_be_tried_again(lost: type[Exception]) -> None:
    """So the trigger goes on polling the run, and the task is not failed."""
    answers = Mock(side_effect=[lost("reset by peer"), "the job"])
    assert cloud_calls.call_options()["retry"](answers)() == "the job"
    with (
        pytest.raises(SparkUnavailable, match=r"BigQuery job \[name\] failed: .*reset by peer The task tries again"),
        cloud_calls.translate_errors(ErrorHints("my-project", SPARK), "BigQuery job [name]", ignored=KeyError),
    ):
        raise lost("reset by peer")


def test_a_cluster_that_does_not_exist_is_named_with_the_command_that_lists_them(fakes, simulate: Simulate) -> None:
    fakes("cluster")
    settings = SPARK.model_copy(update={"cluster": ClusterSettings(name="nightly")})
    done = simulate("cluster", settings=settings).run()
    assert done.tries == 1
    assert "Cluster [nightly] is not in project [my-project], region [europe-west1]" in done.error
    assert "gcloud dataproc clusters list --region=europe-west1 --project=my-project" in done.error


def test_a_cluster_that_is_not_running_is_tried_again(fakes, simulate: Simulate) -> None:
    fake = fakes("cluster")
    fake.state.clusters["shared"].state = "STOPPED"
    done = simulate("cluster").run()
    assert (done.state, done.tries) == ("failed", RETRIES + 1)
    assert "Cluster shared is STOPPED" in done.error


@pytest.mark.parametrize(
    ("message", "command"),
    [
        (
            "Subnetwork 'spark' does not support Private Google Access which is required",
            "gcloud compute networks subnets update spark --region=europe-west1 --enable-private-ip-google-access",
        ),
        (
            "Service account lacks permission dataproc.tasks.lease",
            "--member=serviceAccount:spark@my-project.iam.gserviceaccount.com --role=roles/dataproc.worker",
        ),
    ],
)
def test_a_batch_that_fails_for_a_known_reason_names_the_command_and_is_not_repeated(
    message: str, command: str, fakes, simulate: Simulate
) -> None:
    fakes("serverless", endings=[("failed", message)])
    done = simulate("serverless").run()
    assert (done.state, done.tries) == ("failed", 1)
    assert command in done.error
    assert "logs/query" in done.error


def test_the_command_names_the_project_of_a_shared_vpc(fakes, simulate: Simulate) -> None:
    fakes("serverless", endings=[("failed", "Subnetwork 'shared' does not support Private Google Access")])
    settings = SPARK.model_copy(update={"subnetwork": "projects/host/regions/europe-west1/subnetworks/shared"})
    done = simulate("serverless", settings=settings).run()
    assert "subnets update shared --region=europe-west1" in done.error
    assert "--project=host" in done.error


def test_preempted_machines_are_named_and_the_task_is_retried(fakes, simulate: Simulate) -> None:
    fakes("cluster", endings=[("failed", "Task preempted")])
    done = simulate("cluster").run()
    assert (done.state, done.tries) == ("success", 2)
    assert "Machines were preempted" in str(done.errors[0])


def test_a_property_that_the_service_refuses_anyway_fails_at_once_with_its_words(fakes, simulate: Simulate) -> None:
    fakes("serverless")
    size = SparkSize.model_construct(**{**SparkSize().model_dump(), "properties": {"spark.yarn.queue": "q"}})
    done = simulate("serverless", size=size).run()
    assert done.tries == 1
    assert "Attempted to set unsupported properties: [ spark:spark.yarn.queue ] Correct section [spark]" in done.error


def test_without_deployed_spark_code_nothing_is_submitted(fakes, simulate: Simulate, tmp_path: Path) -> None:
    fake, task = fakes("serverless"), simulate("serverless")
    (tmp_path / "spark_code.json").unlink()
    assert "run `make deploy`, then clear the run" in task.run().error
    assert (task.tries, fake.state.runs) == (1, {})
    (tmp_path / "spark_code.json").write_text('{"main": "gs://code/main.py"}')
    assert "does not have the format that the deployment writes" in simulate("serverless").run().error


@pytest.mark.parametrize(("runner", "missing"), [("serverless", "region"), ("procedure", "procedure_connection")])
def test_a_profile_without_a_setting_of_the_runner_is_refused(runner: str, missing: str, simulate: Simulate) -> None:
    with pytest.raises(ConfigurationError, match=rf"needs \[spark\.{missing}\] in the profile"):
        simulate(runner, settings=SparkSettings()).operator()


# As users reported them (the GitHub issue is named); what the hint must say; whether a retry can help.
REPORTED = [
    (
        "Quota exceeded for quota metric 'logging.googleapis.com/read_requests' and limit "
        "'ReadRequestsPerMinutePerProject' of service 'logging.googleapis.com' for consumer 'project_number:42'.",
        "has used up the requests of this minute",
        False,
    ),  # mrjob 1889, of another service
    (
        "Insufficient 'DISKS_TOTAL_GB' quota. Requested 1200.0, available 500.0.",
        "A quota of project",
        False,
    ),  # vertex-ai-samples 1805
    (
        "Insufficient 'N2_CPUS' quota. Requested 12.0, available 0.0.",
        "A quota of project",
        False,
    ),  # python-docs-samples 13456
    (
        "Error Code: UNAVAILABLE, errorSource: COMPUTE_ENGINE, Error Message: The zone 'projects/p/zones/x' "
        "does not have enough resources available to fulfill the request. Try a different zone, or try again later.",
        "too few machines in region [europe-west1]",
        False,
    ),  # kestra-io/plugin-gcp 698
    (
        "Multiple validation errors: - Insufficient 'CPUS' quota. Requested 6.0, available 4.0. - Insufficient "
        "'IN_USE_ADDRESSES' quota. Requested 3.0, available 2.0.",
        "A quota of project",
        False,
    ),  # streamify 5
    (
        "A e2-standard-2 VM instance is currently unavailable in the europe-west4-a zone.",
        "too few machines in region [europe-west1]",
        False,
    ),  # ai-on-gke 849
    ("code: ZONE_RESOURCE_POOL_EXHAUSTED", "too few machines in region [europe-west1]", False),  # ai-on-gke 849
    (
        "User not authorized to act as service account '42-compute@developer.gserviceaccount.com'. To act as a service "
        "account, user must have one of [Owner, Editor, Service Account Actor] roles.",
        "Airflow may not run Spark as",
        True,
    ),  # streamify 7
    (
        "Subnetwork 'default' does not support Private Google Access which is required for Dataproc clusters when "
        "'internal_ip_only' is set to 'true'. Enable Private Google Access on subnetwork 'default' or set "
        "'internal_ip_only' to 'false'.",
        "Subnetwork [spark] has no Private Google Access",
        True,
    ),  # dbt-bigquery 448
    (
        "Network 'default' requires explicit subnetworks for instance creation. Specify a 'legacy' or 'auto' network, "
        "or specify subnetwork explicitly.",
        "then name one in [spark.subnetwork] of the profile",
        True,
    ),  # cudf-spark 6335
    (
        "The resource 'projects/CURRENT-PROJECT/regions/us-east1/subnetworks/xpn-us-east1-shared1' was not found",
        "Subnetwork [spark] is not in project [my-project], region [europe-west1]",
        True,
    ),  # terraform-provider-google 931
    (
        "Permissions are missing for the default service account",
        "--role=roles/dataproc.worker",
        True,
    ),  # magic-modules 18626
    (
        "Node groups are not allowed to be used without staging bucket permissions (storage.objects.get, "
        "storage.objects.create and storage.objects.update) for the vm service account.",
        "--role=roles/dataproc.worker",
        True,
    ),  # terraform-provider-google 16492
    (
        "java.net.UnknownHostException: storage.googleapis.com: Temporary failure in name resolution",
        "could not be resolved. The task tries again by itself",
        False,
    ),
    (
        "Driver compute node failed to initialize for batch in 600 seconds",
        "Spark's driver did not start in time",
        False,
    ),  # Google's page on the service account of batches
]


@pytest.mark.parametrize(("message", "said", "permanent"), REPORTED)
def test_errors_that_users_reported_get_the_right_hint(message: str, said: str, permanent: bool) -> None:
    hint = ErrorHints("my-project", SPARK).for_message(message)
    assert hint is not None
    assert said in hint.text
    assert hint.permanent is permanent


def test_a_cluster_of_a_run_that_is_gone_is_created_anew_by_a_retry() -> None:
    """Not so a cluster that the profile names: the advice for it, to remove the name, does not fit."""
    message = "Not found: Cluster projects/my-project/regions/europe-west1/clusters/dc-feed-00000007-c0-1"
    hint = ErrorHints("my-project", OWN_CLUSTER).for_message(message)
    assert hint is not None
    assert (hint.text.startswith("Cluster [dc-feed-00000007-c0-1] was deleted before"), hint.permanent) == (True, False)


@pytest.mark.parametrize("runner", ["local", "kubernetes"])
def test_a_runner_without_an_api_of_google_is_not_taken_for_a_cluster(runner: str, fakes, simulate: Simulate) -> None:
    fakes("cluster")
    config = dataclasses.replace(simulate("cluster").operator().runner_config, runner=runner)
    with pytest.raises((AssertionError, ValueError), match=runner):
        open_runner(config)
