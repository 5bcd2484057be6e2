"""The doctor finds what is wrong, says how to fix it, and changes nothing."""

from __future__ import annotations

import copy
import itertools
import runpy
import shlex
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from requests import Response

from deploy.doctor.finding import Finding, Level, findings_as_text
from deploy.doctor.google_api import ApiError, GoogleApi
from deploy.environment_settings import REPOSITORY
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import RecordedGoogle, answer, healthy
from tests.contract.doctor.doctor_findings import ROWS, WITH_TAG, faults, feed_with, findings, granted, of, spoilt
from tests.rest_schemas import described
from tests.shared.required_tools import require_gcloud

ACCESS_TF = REPOSITORY / "deploy" / "terraform" / "access.tf"
LIMITED = {"expression": 'resource.name.startsWith("projects/_/buckets/other")'}
SPARK_PROCEDURE = {"runner": "bigquery_procedure", "procedure_connection": "my-project.eu.spark"}
SHARED = "projects/host/regions/europe-west1/subnetworks/shared"
HOST_FIREWALLS = google.FIREWALLS.replace("my-project", "host")
HOST_SUBNETWORK = f"https://compute.googleapis.com/compute/v1/{SHARED}"


def test_nothing_is_found_in_a_healthy_environment_and_nothing_changed() -> None:
    recorded = RecordedGoogle(healthy())
    assert [f for f in findings(recorded) if f.level in (Level.FAIL, Level.WARN)] == []
    changing = {method for method, url in recorded.asked if not url.endswith(":getIamPolicy")}
    assert changing == {"GET"}


@pytest.mark.parametrize("row", ROWS["faults"], ids=lambda row: row[1])
def test_each_fault_is_found_with_what_fixes_it(row: list[Any]) -> None:
    changes, subject, level, words, *settings = row
    found = of(subject, spoilt(changes), **(settings[0] if settings else {}))
    of_level = [f"{finding.text}\n{finding.command}" for finding in found if finding.level == level]
    assert any(all(word in shown for word in words) for shown in of_level), found


@pytest.mark.parametrize("row", ROWS["harmless"], ids=lambda row: row[1])
def test_what_works_is_no_fault(row: list[Any]) -> None:
    changes, subject, *settings = row
    assert subject not in faults(spoilt(changes), **(settings[0] if settings else {}))


def test_each_missing_role_is_found() -> None:
    for url in (google.PROJECT_POLICY, google.SPARK_POLICY, google.LANDING_IAM, google.STATE_IAM):
        whole = healthy()[url]["bindings"]
        for missing in range(len(whole)):
            answers = healthy()
            del answers[url]["bindings"][missing]
            (finding,) = [f for f in findings(answers) if f.level is Level.FAIL]
            assert whole[missing]["role"] in finding.text
            assert "add-iam-policy-binding" in finding.command


@feed_with(WITH_TAG)
def test_an_error_that_is_no_refusal_advises_no_role_and_takes_no_other_check_down() -> None:
    for url, status in zip(healthy(), itertools.cycle((400, 401, 429, 503)), strict=False):
        found = findings({**healthy(), url: status}, **SPARK_PROCEDURE)
        assert any(f.level is Level.OK for f in found)
        for finding in (f for f in found if f"status [{status}]" in f.text):
            assert finding.command
            assert "--member=user:YOU" not in finding.command
            assert " create " not in finding.command


def test_an_account_without_any_right_gets_a_report_all_the_same() -> None:
    report = findings_as_text(findings(dict.fromkeys(healthy(), 403)))
    assert report.splitlines()[0].startswith("fail")


@pytest.mark.parametrize("url", [google.DATASET, google.STATE_IAM, google.SPARK_POLICY])
def test_roles_on_what_is_missing_are_not_asked_for(url: str) -> None:
    assert not any("roles on" in subject for subject in faults({**healthy(), url: 404}))
    assert any("roles on" in subject for subject in faults({**healthy(), url: 403}))


def test_the_account_of_a_stored_procedures_connection_needs_rights_on_both_buckets() -> None:
    """spark-procedures: a procedure runs as this account. It is no stranger to the buckets then."""
    answers, account = healthy(), f"serviceAccount:{google.CONNECTION_ACCOUNT}"
    missing = of("connection", answers, **SPARK_PROCEDURE)
    roles = ("objectViewer", "legacyBucketReader", "objectUser", "legacyBucketReader")
    assert [f.command.rpartition("=")[2] for f in missing] == [f"roles/storage.{role}" for role in roles]
    assert all(f"--member={account}" in finding.command for finding in missing)
    for url, role in zip(
        (google.LANDING_IAM, google.LANDING_IAM, google.STATE_IAM, google.STATE_IAM), roles, strict=True
    ):
        answers[url]["bindings"].append(granted(f"roles/storage.{role}", account))
    assert [f.level for f in of("connection", answers, **SPARK_PROCEDURE)] == [Level.OK]
    assert faults(answers) == {}
    answers[google.STATE_IAM]["bindings"][-1]["condition"] = LIMITED
    (limited,) = of("connection", answers, **SPARK_PROCEDURE)
    assert "legacyBucketReader" in limited.command


def test_a_connection_is_looked_up_in_its_own_project() -> None:
    """An administrator of connections in its project may delegate it."""
    answers = healthy()
    connection = google.CONNECTION.replace("my-project", "other-project")
    answers |= {connection: answers[google.CONNECTION], f"{connection}:getIamPolicy": {"etag": "BwX"}}
    policy = google.PROJECT_POLICY.replace("my-project", "other-project")
    settings = {**SPARK_PROCEDURE, "procedure_connection": "other-project.eu.spark"}
    admin = granted("roles/bigquery.connectionAdmin", f"serviceAccount:{google.AIRFLOW}")
    answers[policy] = {"bindings": [admin]}
    assert not any("connectionAdmin" in f.text for f in of("connection", answers, **settings))
    answers[policy] = 403
    (refused,) = of("connection", answers, **settings)
    assert "binding other-project --member=user:YOU" in refused.command


def test_what_runtime_3_needs_can_be_granted() -> None:
    answers = healthy()
    answers[google.SERVICES]["services"].append({"config": {"name": "dataprocrm.googleapis.com"}})
    agent = "serviceAccount:service-42@gcp-sa-dataprocrmnode.iam.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"].append(granted("roles/dataprocrm.nodeServiceAgent", agent))
    assert [f for f in findings(answers, runtime_version="3.0") if f.level is Level.FAIL] == []
    assert of("runtime 3.0", healthy(), runtime_version="2.3") == []


def test_only_a_runner_that_creates_machines_needs_a_network() -> None:
    def subjects(**settings: Any) -> set[str]:
        return {f.subject for f in findings(healthy(), **settings)}

    assert "firewall" not in subjects(**SPARK_PROCEDURE)
    assert "firewall" in subjects(**SPARK_PROCEDURE, feed_runner="serverless")
    assert {"connection"} <= subjects(**{**SPARK_PROCEDURE, "runner": "serverless"}, feed_runner="bigquery_procedure")


@feed_with(WITH_TAG)
def test_a_feed_with_policy_tags_needs_fine_grained_reader() -> None:
    """Impact on writes with column-level access control: a copy checks it on the source's tags."""
    answers = healthy()
    fault = faults(answers)["policy tags"]
    assert fault.level is Level.FAIL
    assert "policy-tags add-iam-policy-binding 2 --taxonomy=4 --location=eu --project=my-project" in fault.command
    role = "roles/datacatalog.categoryFineGrainedReader"
    reader = granted(role, f"serviceAccount:{google.AIRFLOW}")
    for url in (google.TAG_POLICY, google.PROJECT_POLICY):
        granting = copy.deepcopy(answers)
        granting[url].setdefault("bindings", []).append(reader)
        assert faults(granting) == {}
        granting[url]["bindings"][-1] = {**reader, "condition": LIMITED}
        assert faults(granting)["policy tags"].level is Level.FAIL
    assert faults({**answers, google.TAG_POLICY: 403})["policy tags"].level is Level.WARN
    (hidden,) = of("policy tags", {**answers, google.PROJECT_POLICY: 403})
    assert (hidden.level, "--member=user:YOU" in hidden.command) == (Level.WARN, True)
    answers |= {google.PROJECT_POLICY: 403, google.TAG_POLICY: {"bindings": [reader]}}
    assert [f.level for f in of("policy tags", answers)] == [Level.OK]
    assert f'"{role}"' in ACCESS_TF.read_text()


@feed_with("{row_access: [own_stores]}")
def test_a_feed_with_row_policies_needs_the_custom_role() -> None:
    """ "Data retention with time travel and fail-safe": dataOwner may not read the past of such a table."""
    fault = faults(healthy())["row access policies"]
    role = "projects/my-project/roles/dedupCloneReadPast"
    assert (fault.level, f"GRANT `{role}`" in fault.command) == (Level.FAIL, True)
    answers = healthy()
    answers[google.DATASET]["access"].append({"role": role, "userByEmail": google.AIRFLOW})
    assert faults(answers) == {}
    assert '"dedupCloneReadPast"' in ACCESS_TF.read_text()
    assert '["bigquery.rowAccessPolicies.overrideTimeTravelRestrictions"]' in ACCESS_TF.read_text()


def with_shared_vpc() -> dict[str, Any]:
    """Subnetwork and firewall rules are in project `host` only."""
    answers = healthy()
    network = google.NETWORK.replace("my-project", "host")
    answers[HOST_SUBNETWORK] = {**answers.pop(google.SUBNETWORK), "network": network}
    answers[HOST_FIREWALLS] = copy.deepcopy(answers.pop(google.FIREWALLS))
    answers[HOST_FIREWALLS]["items"][0]["network"] = network
    return answers


@pytest.mark.parametrize("prefix", ["", "https://www.googleapis.com/compute/v1/"])
def test_a_shared_vpc_is_looked_up_in_its_own_project(prefix: str) -> None:
    answers, subnetwork = with_shared_vpc(), f"{prefix}{SHARED}"

    def found(subject: str, **changes: Any) -> Finding:
        return faults({**answers, **changes}, subnetwork=subnetwork)[subject]

    assert faults(answers, subnetwork=subnetwork) == {}
    assert "--project=host" in found("firewall", **{HOST_FIREWALLS: {"items": []}}).command
    closed = found("subnetwork", **{HOST_SUBNETWORK: {**answers[HOST_SUBNETWORK], "privateIpGoogleAccess": False}})
    assert closed.command.startswith("gcloud compute networks subnets update shared ")
    missing = found("subnetwork", **{HOST_SUBNETWORK: 404})
    assert (missing.level, "--project=host" in missing.command) == (Level.FAIL, True)
    # The user may lack rights in the other project.
    for url, subject in ((HOST_SUBNETWORK, "subnetwork"), (HOST_FIREWALLS, "firewall")):
        refused = found(subject, **{url: 403})
        assert refused.level is Level.WARN
        assert "binding host --member=user:YOU --role=roles/compute.networkViewer" in refused.command


def test_an_account_is_looked_for_in_its_own_project() -> None:
    spark, answers = "runs@data.example.com.iam.gserviceaccount.com", healthy()
    for account, project in ((spark, "example.com:data"), ("42-compute@developer.gserviceaccount.com", "my-project")):
        answers[f"https://iam.googleapis.com/v1/projects/{project}/serviceAccounts/{account}"] = {}
        assert of("service account of spark", answers, service_account=account) == []


READ_BY_POST = ":getIamPolicy"


def test_an_error_may_be_a_word() -> None:
    """As OAuth answers: RFC 6749, section 5.2."""

    class Refusing(RecordedGoogle):
        def request(self, *arguments: Any, **options: Any) -> Response:
            return answer(401, {"error": "invalid_token"})

    with pytest.raises(ApiError, match=r"status \[401\]: invalid_token"):
        GoogleApi(Refusing({})).get("https://bigquery.googleapis.com/")


@cache
def every_question() -> RecordedGoogle:
    """What is asked of a healthy environment, for each runner."""
    recorded = RecordedGoogle(healthy())
    with feed_with(WITH_TAG):
        findings(recorded, runner="serverless")
        findings(recorded, runner="cluster")
        findings(recorded, runner="bigquery_procedure", procedure_connection="my-project.eu.spark")
    return recorded


@pytest.mark.parametrize("url", sorted(google.SCHEMAS))
def test_questions_and_answers_are_those_of_the_published_apis(url: str) -> None:
    name, schema = google.SCHEMAS[url]
    api, recorded = described(name), every_question()
    assert urlsplit(url).hostname == f"{name.partition('.')[0]}.googleapis.com"
    assert api.message_faults(schema, healthy()[url]) == []
    verb = "POST" if url.endswith(READ_BY_POST) else "GET"
    assert api.faults(verb, f"{url}?{urlencode(recorded.parameters[url])}", recorded.bodies[url] or None) == []


LAST_WORDS = {"start", "update", "create", "list", "describe", "enable", "relocate", "run", "login"}
LAST_WORDS |= {"add-iam-policy-binding", "remove-iam-policy-binding"}


def printed_commands() -> set[str]:
    """Of every fault that the tests know, and of what does not exist."""
    with feed_with(WITH_TAG):
        found = findings(dict.fromkeys(healthy(), 404))
        for changes, _, _, _, *settings in ROWS["faults"]:
            found += findings(spoilt(changes), **(settings[0] if settings else {}))
    lines = (line for finding in found for line in finding.command.splitlines())
    return {command for line in lines for command in line.split(" && ") if command.startswith("gcloud ")}


def test_every_verb_and_flag_is_in_gclouds_list_of_its_commands() -> None:
    """The list that its completion in shells uses. A flag that can be switched off is there once, as its positive."""
    installed = Path(require_gcloud()).resolve().parents[1]
    tree = runpy.run_path(str(installed / "data" / "cli" / "gcloud_completions.py"))["STATIC_COMPLETION_CLI_TREE"]
    commands = printed_commands()
    assert len(commands) > 20
    for command in commands:
        found, words = tree, shlex.split(command)[1:]
        last = next(number for number, word in enumerate(words) if word in LAST_WORDS)
        for word in words[: last + 1]:
            assert word in found["commands"], command
            found = found["commands"][word]
        flags = {word.partition("=")[0] for word in words if word.startswith("--")}
        known = {*tree["flags"], *found["flags"]}
        assert {flag for flag in flags if not known & {flag, flag.replace("--no-", "--")}} == set(), command
