"""The doctor finds what is wrong, says how to fix it, and changes nothing."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dedup_clone.settings.spark_settings import Runner
from dedup_clone.warehouse.policies import READ_PAST
from deploy.doctor import row_policies
from deploy.doctor.finding import Finding, Level, findings_as_text
from deploy.environment_settings import REPOSITORY, read_environment
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import healthy
from tests.contract.doctor.doctor_findings import WITH_TAG, faults, feed_with, findings, granted, set_at
from tests.contract.doctor.fault_cases import CASES

ACCESS_TF = REPOSITORY / "deploy" / "terraform" / "access.tf"
# A condition may limit a role to something else, so such a grant counts as none.
LIMITED = {"expression": 'resource.name.startsWith("projects/_/buckets/other")'}


def test_nothing_is_found_in_a_healthy_environment() -> None:
    assert faults(healthy()) == {}


def test_an_environment_where_nobody_is_notified_of_incidents_is_refused_with_the_line_to_add() -> None:
    (found,) = [f for f in findings(healthy(), webhooks=()) if f.level is Level.FAIL]
    assert (found.subject, "nobody is told of incidents" in found.text) == ("alerts", True)
    assert "`webhooks: [CONNECTION]`" in found.command


@pytest.mark.parametrize(("url", "path", "value", "subject", "level", "word", "command"), CASES)
def test_each_fault_is_found_with_what_fixes_it(
    url: str, path: str, value: Any, subject: str, level: str, word: str, command: str
) -> None:
    answers = healthy()
    set_at(answers, url, path, value)
    found = faults(answers)
    assert subject in found, found
    assert found[subject].level == level
    assert word in found[subject].text
    assert command in found[subject].command


def test_a_cluster_that_does_not_run_is_found() -> None:
    answers = healthy()
    assert [f.level for f in findings(answers, Runner.CLUSTER) if f.subject == "cluster"] == [Level.OK]
    set_at(answers, google.CLUSTER, "status.state", "STOPPED")
    (stopped,) = [f for f in findings(answers, Runner.CLUSTER) if f.subject == "cluster"]
    assert "clusters start standing" in stopped.command
    del answers[google.CLUSTER]
    (missing,) = [f for f in findings(answers, Runner.CLUSTER) if f.subject == "cluster"]
    assert "status [404]" in missing.text
    assert "clusters list" in missing.command


def test_what_a_stored_procedure_for_spark_needs_is_looked_for() -> None:
    """spark-procedures: connections.delegate, and the rights of the connection's account, as which a procedure runs."""

    def found(answers: dict[str, Any]) -> list[Finding]:
        seen = findings(answers, Runner.BIGQUERY_PROCEDURE, procedure_connection="my-project.eu.spark")
        return [f for f in seen if f.subject == "connection"]

    answers = healthy()
    missing = found(answers)
    roles = ("objectViewer", "legacyBucketReader", "objectUser", "legacyBucketReader")
    assert [f.command.rpartition("=")[2] for f in missing] == [f"roles/storage.{role}" for role in roles]
    for number, finding in enumerate(missing):
        assert f"--member=serviceAccount:{google.CONNECTION_ACCOUNT}" in finding.command
        bucket, role = (google.LANDING, google.STATE)[number // 2], f"roles/storage.{roles[number]}"
        answers[f"{bucket}/iam"]["bindings"].append(granted(role, f"serviceAccount:{google.CONNECTION_ACCOUNT}"))
    assert [f.level for f in found(answers)] == [Level.OK]
    assert {f.subject for f in faults(answers).values()} == set(), "its account is no stranger to the buckets"
    answers[f"{google.STATE}/iam"]["bindings"][-1]["condition"] = LIMITED
    assert ["legacyBucketReader" in f.command for f in found(answers)] == [True]
    answers[f"{google.CONNECTION}:getIamPolicy"]["bindings"][0]["condition"] = LIMITED
    assert ["connectionAdmin" in f.text for f in found(answers)] == [True]
    answers[f"{google.CONNECTION}:getIamPolicy"] = {}
    assert ["connectionAdmin" in f.text for f in found(answers)] == [True]
    answers[google.CONNECTION] = {"cloudSql": {}}
    assert ["expected one to Apache Spark" in f.text for f in found(answers)] == [True]
    del answers[google.CONNECTION]
    assert ["bq mk --connection --connection_type=SPARK" in f.command for f in found(answers)] == [True]


def test_what_runtime_3_needs_is_looked_for() -> None:
    answers = healthy()
    found = {f.subject: f for f in findings(answers, runtime_version="3.0") if f.level is Level.FAIL}
    assert set(found) == {"APIs", "runtime 3.0"}
    assert "gcloud services enable dataprocrm.googleapis.com" in found["APIs"].command
    command = found["runtime 3.0"].command
    assert "services identity create --service=dataprocrm.googleapis.com" in command
    assert command.endswith("@gcp-sa-dataprocrmnode.iam.gserviceaccount.com --role=roles/dataprocrm.nodeServiceAgent")
    answers[google.SERVICES]["services"].append({"config": {"name": "dataprocrm.googleapis.com"}})
    agent = "serviceAccount:service-42@gcp-sa-dataprocrmnode.iam.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"].append(granted("roles/dataprocrm.nodeServiceAgent", agent))
    assert [f for f in findings(answers, runtime_version="3.0") if f.level is Level.FAIL] == []
    assert [f for f in findings(healthy(), runtime_version="2.3") if f.subject == "runtime 3.0"] == []


def test_accounts_that_are_missing_or_disabled_are_found() -> None:
    answers = healthy()
    del answers[google.ACCOUNTS[google.PRODUCER]]
    set_at(answers, google.ACCOUNTS[google.AIRFLOW], "disabled", True)
    found = faults(answers)
    assert "create dedup-clone-producer" in found["service account of producer"].command
    assert f"enable {google.AIRFLOW}" in found["service account of airflow"].command
    answers[google.ACCOUNTS[google.PRODUCER]] = 403
    assert "--member=user:YOU" in faults(answers)["service account of producer"].command


def test_an_account_is_looked_for_in_its_own_project() -> None:
    spark = "runs@data.example.com.iam.gserviceaccount.com"
    answers = healthy()
    missing = {f.subject: f for f in findings(answers, service_account=spark)}["service account of spark"]
    assert missing.command == "gcloud iam service-accounts create runs --project=example.com:data"
    answers[f"https://iam.googleapis.com/v1/projects/example.com:data/serviceAccounts/{spark}"] = {}
    assert "service account of spark" not in {f.subject for f in findings(answers, service_account=spark)}
    of_google = "42-compute@developer.gserviceaccount.com"
    answers[f"https://iam.googleapis.com/v1/projects/my-project/serviceAccounts/{of_google}"] = {}
    assert "service account of spark" not in {f.subject for f in findings(answers, service_account=of_google)}


def test_an_environment_without_a_release_is_found() -> None:
    answers = healthy()
    del answers[google.SPARK_CODE]
    assert faults(answers)["Spark code"].command == "make deploy"


def test_spark_in_airflows_own_workers_is_refused_there() -> None:
    (finding,) = [f for f in findings(healthy(), Runner.LOCAL) if f.subject == "runner"]
    assert "runner: serverless" in finding.command


def test_what_a_feeds_own_runner_needs_is_looked_for() -> None:
    """A profile that lacks what its own runner needs cannot be read."""

    def fails(**settings: Any) -> dict[str, Finding]:
        return {f.subject: f for f in findings(healthy(), **settings) if f.level is Level.FAIL}

    procedure = fails(feed_runner=Runner.BIGQUERY_PROCEDURE)
    assert "needs [spark.procedure_connection]" in procedure["runner"].text
    assert "bigqueryconnection.googleapis.com" in procedure["APIs"].command
    assert "connection" in fails(feed_runner=Runner.BIGQUERY_PROCEDURE, procedure_connection="my-project.eu.spark")
    assert set(fails(feed_runner=Runner.LOCAL)) == {"runner"}
    by_procedure = {"runner": Runner.BIGQUERY_PROCEDURE, "procedure_connection": "my-project.eu.spark"}
    assert "firewall" not in {f.subject for f in findings(healthy(), **by_procedure)}
    assert "firewall" in {f.subject for f in findings(healthy(), **by_procedure, feed_runner=Runner.SERVERLESS)}


def test_only_machines_that_are_created_need_the_profiles_account() -> None:
    own_account = {"service_account": None, "procedure_connection": "my-project.eu.spark"}
    for runner, is_needed in (
        (Runner.SERVERLESS, True),
        (Runner.CLUSTER, False),
        (Runner.BIGQUERY_PROCEDURE, False),
    ):
        subjects = {f.subject for f in findings(healthy(), runner, **own_account)}
        assert ("Spark service account" in subjects) == is_needed


def test_each_missing_role_is_found() -> None:
    for url in (google.PROJECT_POLICY, google.SPARK_POLICY, f"{google.LANDING}/iam", f"{google.STATE}/iam"):
        whole = healthy()[url]["bindings"]
        for missing in range(len(whole)):
            answers = healthy()
            del answers[url]["bindings"][missing]
            (finding,) = [f for f in findings(answers) if f.level is Level.FAIL]
            assert whole[missing]["role"] in finding.text
            assert "add-iam-policy-binding" in finding.command


def test_a_grant_under_another_condition_is_not_believed() -> None:
    answers = healthy()
    answers[google.SPARK_POLICY]["bindings"][0]["condition"] = {"expression": "false"}
    assert "roles/iam.serviceAccountUser" in faults(answers)["role of airflow"].text


def test_an_account_that_may_do_everything_is_reported() -> None:
    answers = healthy()
    owner = {"role": "roles/editor", "members": [f"serviceAccount:{google.SPARK}"]}
    answers[google.PROJECT_POLICY]["bindings"].append(owner)
    assert "remove-iam-policy-binding" in faults(answers)["role of spark"].command


@pytest.mark.parametrize("url", [google.LANDING, google.STATE, google.DATASET, google.SUBNETWORK, google.ENVIRONMENT])
def test_what_does_not_exist_is_a_finding_with_a_command(url: str) -> None:
    answers = healthy()
    del answers[url]
    failed = [f for f in findings(answers) if f.level is Level.FAIL]
    assert failed
    assert all(finding.command for finding in failed)
    assert "status [404]" in findings_as_text(failed)


def test_a_refused_question_takes_no_other_down() -> None:
    answers = healthy()
    answers[google.SERVICES] = 403
    answers[google.PROJECT_POLICY] = 403
    found = faults(answers)
    assert "status [403]" in found["services"].text
    assert "securityReviewer" in found["roles on project"].command
    assert any(f.subject == "triggerers" and f.level is Level.OK for f in findings(answers))


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "see Google's text"),
        (401, "gcloud auth application-default login"),
        (403, "--role=roles/viewer"),
        (404, "correct its name in the profile"),
        (429, "again in some minutes"),
        (503, "again in some minutes"),
    ],
)
def test_a_role_is_advised_only_where_one_is_missing(status: int, advice: str) -> None:
    answers = healthy()
    answers[google.SERVICES] = status
    services = faults(answers)["services"]
    assert f"could not be checked, status [{status}]" in services.text
    assert advice in services.command


def test_an_account_without_any_right_gets_a_report_all_the_same() -> None:
    report = findings_as_text(findings(dict.fromkeys(healthy(), 403)))
    assert report.splitlines()[0].startswith("fail")


def placed(answers: dict[str, Any], *, profile: str, dataset: str, buckets: str) -> dict[str, Finding]:
    answers[google.ASSIGNMENTS.replace("europe-west1", profile)] = answers[google.ASSIGNMENTS]
    answers[google.DATASET]["location"] = dataset
    for url in (google.LANDING, google.STATE):
        answers[url]["location"] = buckets
    found = findings(answers, location=profile)
    return {f.subject: f for f in found if f.level in (Level.FAIL, Level.WARN)}


def test_a_multi_region_is_warned_of() -> None:
    found = placed(healthy(), profile="EU", dataset="EU", buckets="EU")
    assert {f.level for f in found.values()} == {Level.WARN}
    assert set(found) == {"dataset location", "landing bucket", "state bucket"}
    assert "--location=europe-west1" in found["state bucket"].command


def test_bigquery_loads_from_regions_inside_its_multi_region() -> None:
    found = placed(healthy(), profile="EU", dataset="EU", buckets="EUROPE-WEST1")
    assert set(found) == {"dataset location"}
    found = placed(healthy(), profile="EU", dataset="EU", buckets="EUROPE-WEST2")  # London is no part of BigQuery's EU
    assert set(found) == {"dataset location", "landing bucket", "state bucket"}


def test_a_pipeline_reservation_is_seen() -> None:
    answers = healthy()
    answers[google.ASSIGNMENTS] = {"assignments": [{"jobType": "PIPELINE", "state": "ACTIVE"}]}
    (finding,) = [f for f in findings(answers) if f.subject == "reservation"]
    assert finding.level is Level.OK


@pytest.mark.parametrize("url", [google.ASSIGNMENTS, google.QUOTAS])
def test_capacity_that_cannot_be_read_is_a_note(url: str) -> None:
    answers: dict[str, Any] = {**healthy(), url: 403}
    assert faults(answers) == {}
    (note,) = [f for f in findings(answers) if "status [403]" in f.text]
    assert (note.level, note.command.startswith("gcloud ")) == (Level.NOTE, True)


@feed_with(WITH_TAG)
def test_a_feed_with_policy_tags_needs_fine_grained_reader() -> None:
    """Impact on writes with column-level access control: a copy checks it on the source's tags."""
    answers = healthy()
    fault = faults(answers)["policy tags"]
    assert fault.level is Level.FAIL
    assert "policy-tags add-iam-policy-binding 2 --taxonomy=4 --location=eu --project=my-project" in fault.command
    reader = granted(row_policies.FINE_GRAINED_READER, f"serviceAccount:{google.AIRFLOW}")
    for url in (google.TAG_POLICY, google.PROJECT_POLICY):
        granting = copy.deepcopy(answers)
        granting[url].setdefault("bindings", []).append(reader)
        assert faults(granting) == {}
        granting[url]["bindings"][-1] = {**reader, "condition": LIMITED}
        assert faults(granting)["policy tags"].level is Level.FAIL
    answers[google.TAG_POLICY] = 403
    assert faults(answers)["policy tags"].level is Level.WARN
    assert f'"{row_policies.FINE_GRAINED_READER}"' in ACCESS_TF.read_text()


@feed_with("{row_access: [own_stores]}")
def test_a_feed_with_row_policies_needs_the_custom_role() -> None:
    """ "Data retention with time travel and fail-safe": dataOwner may not read the past of such a table."""
    fault = faults(healthy())["row access policies"]
    assert fault.level is Level.FAIL
    assert "[product_attributes]" in fault.text
    role = "projects/my-project/roles/dedupCloneReadPast"
    assert f"GRANT `{role}`" in fault.command
    answers = healthy()
    answers[google.DATASET]["access"].append({"role": role, "userByEmail": read_environment().airflow})
    assert faults(answers) == {}
    assert f'"{row_policies.ROLE_ID}"' in ACCESS_TF.read_text()
    assert f'["{READ_PAST}"]' in ACCESS_TF.read_text()


def test_views_of_the_organization_need_a_role_on_it() -> None:
    """TABLE_STORAGE_BY_ORGANIZATION view, "Required permissions": tables.get and tables.list for the organization."""

    def found(answers: dict[str, Any]) -> Finding:
        (finding,) = [f for f in findings(answers, organization_views=True) if f.subject == "materialized views"]
        return finding

    answers = healthy()
    assert found(answers).level is Level.FAIL
    assert found(answers).command.startswith("gcloud organizations add-iam-policy-binding 4 ")
    viewer = granted("roles/bigquery.metadataViewer", f"serviceAccount:{google.AIRFLOW}")
    answers[google.ORGANIZATION_POLICY] = {"bindings": [viewer]}
    assert found(answers).level is Level.OK
    answers[google.ANCESTRY] = {"ancestor": []}
    assert "in no organization" in found(answers).text
