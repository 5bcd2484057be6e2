"""What works is no failure, and for what the user may not read the doctor proposes a role, not to create it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from dedup_clone.settings.spark_settings import Runner
from deploy.doctor.finding import Finding, Level
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import healthy
from tests.contract.doctor.doctor_findings import WITH_TAG, faults, feed_with, findings, granted, set_at

DELETE = {"type": "Delete"}
CONNECTION = "other-project.eu.spark"


def of(subject: str, answers: dict[str, Any], runner: Runner = Runner.SERVERLESS, **settings: Any) -> list[Finding]:
    return [f for f in findings(answers, runner, **settings) if f.subject == subject]


@pytest.mark.parametrize(
    ("url", "subject", "creates", "role"),
    [
        (google.DATASET, "dataset", "bq --location=europe-west1 mk", "roles/bigquery.metadataViewer"),
        (google.SPARK_CODE, "Spark code", "make deploy", "roles/storage.objectViewer"),
    ],
)
def test_only_what_is_missing_is_to_be_created(url: str, subject: str, creates: str, role: str) -> None:
    missing, refused = faults({**healthy(), url: 404})[subject], faults({**healthy(), url: 403})[subject]
    assert missing.command.startswith(creates)
    assert f"--member=user:YOU --role={role}" in refused.command


@pytest.mark.parametrize("url", [google.DATASET, f"{google.STATE}/iam", google.SPARK_POLICY])
def test_roles_on_what_is_missing_are_not_asked_for(url: str) -> None:
    assert not any("roles on" in subject for subject in faults({**healthy(), url: 404}))
    assert any("roles on" in subject for subject in faults({**healthy(), url: 403}))


@pytest.mark.parametrize(("runner", "status"), list(itertools.product(Runner, (400, 401, 429, 503))))
@feed_with(WITH_TAG)
def test_no_role_is_advised_after_an_error_that_is_no_refusal(runner: Runner, status: int) -> None:
    settings: dict[str, Any] = {"procedure_connection": "my-project.eu.spark", "organization_views": True}
    for url in healthy():
        found = findings({**healthy(), url: status}, runner, **settings)
        advice = {f.text: f.command for f in found if f"status [{status}]" in f.text}
        for text, command in advice.items():
            assert "--member=user:YOU" not in command, text
            assert " create " not in command, text
            assert command, text


def test_a_connection_is_looked_up_in_its_own_project() -> None:
    """An administrator of connections in its project may delegate it."""
    answers = healthy()
    connection = google.CONNECTION.replace("my-project", "other-project")
    answers |= {connection: answers[google.CONNECTION], f"{connection}:getIamPolicy": {"etag": "BwX"}}
    policy = google.PROJECT_POLICY.replace("my-project", "other-project")
    admin = granted("roles/bigquery.connectionAdmin", f"serviceAccount:{google.AIRFLOW}")

    def found() -> list[Finding]:
        return of("connection", answers, Runner.BIGQUERY_PROCEDURE, procedure_connection=CONNECTION)

    answers[policy] = {"bindings": [admin]}
    assert not any("connectionAdmin" in f.text for f in found())
    answers[policy] = 403
    (refused,) = found()
    assert "binding other-project --member=user:YOU" in refused.command


@pytest.mark.parametrize("state", ["RUNNING", "UPDATING", "ERROR_DUE_TO_UPDATE"])
def test_a_cluster_that_accepts_jobs_is_no_failure(state: str) -> None:
    answers = healthy()
    set_at(answers, google.CLUSTER, "status.state", state)
    assert [f.level for f in of("cluster", answers, Runner.CLUSTER)] == [Level.OK]


def test_only_a_stopped_cluster_is_to_be_started() -> None:
    answers = healthy()
    set_at(answers, google.CLUSTER, "status.state", "ERROR")
    (found,) = of("cluster", answers, Runner.CLUSTER)
    assert (found.level, "clusters describe standing" in found.command) == (Level.FAIL, True)


def test_an_environment_that_is_updated_remains_usable() -> None:
    answers = healthy()
    set_at(answers, google.ENVIRONMENT, "state", "UPDATING")
    assert faults(answers) == {}


@pytest.mark.parametrize(
    "condition",
    [
        {"numNewerVersions": 3},
        {"noncurrentTimeBefore": "2026-01-01"},
        {"daysSinceNoncurrentTime": 1},
        {"isLive": False},
    ],
)
def test_a_lifecycle_rule_for_former_versions_deletes_no_live_object(condition: dict[str, Any]) -> None:
    answers = healthy()
    for url in (google.LANDING, google.STATE):
        set_at(answers, url, "lifecycle.rule", [{"action": DELETE, "condition": {"age": 1, **condition}}])
    assert faults(answers) == {}


@pytest.mark.parametrize(
    "rules", [[], [{"action": DELETE, "condition": {"daysSinceNoncurrentTime": 1, "matchesSuffix": [".parquet"]}}]]
)
def test_former_versions_that_no_rule_deletes_are_warned_of(rules: list[dict[str, Any]]) -> None:
    answers = healthy()
    set_at(answers, google.STATE, "lifecycle.rule", rules)
    found = faults(answers)
    assert {(name, f.level) for name, f in found.items()} == {("state versioning", Level.WARN)}
    assert "--lifecycle-file=lifecycle.json" in found["state versioning"].command


def test_without_a_region_of_spark_none_is_made_up() -> None:
    answers = healthy()
    answers[google.DATASET]["location"] = answers[google.STATE]["location"] = "EU"
    found = findings(answers, Runner.BIGQUERY_PROCEDURE, location="EU", region=None)
    assert [f.command[-17:] for f in found if f.subject == "state bucket"] == ["--location=REGION"]


@pytest.mark.parametrize(
    ("location", "pair", "level"),
    [
        ("EU", ["EUROPE-WEST1", "EUROPE-WEST4"], Level.WARN),
        ("EU", ["EUROPE-NORTH1", "EUROPE-WEST4"], Level.FAIL),
        ("EUR4", None, Level.FAIL),
    ],
)
def test_bigquery_loads_from_a_dual_region_that_includes_its_region(
    location: str, pair: list[str] | None, level: Level
) -> None:
    """BigQuery locations, "Query Cloud Storage data", which the section on loads refers to."""
    answers = healthy()
    for url in (google.LANDING, google.STATE):
        answers[url] |= {"location": location, **({"customPlacementConfig": {"dataLocations": pair}} if pair else {})}
    assert {(name, f.level) for name, f in faults(answers).items()} == {
        ("landing bucket", level),
        ("state bucket", level),
    }
    answers[google.DATASET]["location"] = "EU"
    found = findings(answers, location="EU")
    assert {f.level for f in found if f.subject in ("landing bucket", "state bucket")} == {Level.WARN}


def test_an_organization_whose_policy_is_hidden_is_warned_of_with_its_own_role() -> None:
    answers: dict[str, Any] = {**healthy(), google.ORGANIZATION_POLICY: 403}
    (found,) = [f for f in findings(answers, organization_views=True) if f.subject == "materialized views"]
    assert found.level is Level.WARN
    assert found.command.startswith("gcloud organizations add-iam-policy-binding 4 ")
    assert "--member=user:YOU" in found.command


@feed_with(WITH_TAG)
def test_a_role_on_a_policy_tag_suffices_whatever_its_project_says() -> None:
    answers: dict[str, Any] = {**healthy(), google.PROJECT_POLICY: 403}
    (hidden,) = of("policy tags", answers)
    assert (hidden.level, "--member=user:YOU" in hidden.command) == (Level.WARN, True)
    reader = granted("roles/datacatalog.categoryFineGrainedReader", f"serviceAccount:{google.AIRFLOW}")
    answers[google.TAG_POLICY] = {"bindings": [reader]}
    assert [f.level for f in of("policy tags", answers)] == [Level.OK]
