"""The doctor names every account that may write into a bucket and should not."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.doctor.finding import Finding, Level
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import healthy
from tests.contract.doctor.doctor_findings import faults, findings, granted


def test_a_role_that_reaches_every_bucket_is_reported_with_the_condition_that_limits_it() -> None:
    answers = healthy()
    for binding in answers[google.PROJECT_POLICY]["bindings"]:
        binding.pop("condition", None)
    found = faults(answers)
    for who, bucket in (("airflow", "my-project-dedup-clone-airflow"), ("spark", "my-project-dedup-clone-spark")):
        assert f"every bucket of the project, expected only [{bucket}]" in found[f"role of {who}"].text
        grant, removal = found[f"role of {who}"].command.splitlines()
        assert f"projects/_/buckets/{bucket}/" in grant
        assert removal.endswith("--condition=None")
    assert google.SPARK in found["writers of environment"].text
    assert google.SPARK in found["writers of landing"].text


def writers(answers: dict[str, Any], bucket: str) -> dict[Level, Finding]:
    return {f.level: f for f in findings(answers) if f.subject == f"writers of {bucket}"}


def test_of_a_healthy_environment_the_writers_are_those_of_the_list() -> None:
    assert google.PRODUCER in writers(healthy(), "landing")[Level.OK].text
    assert f"[{google.AIRFLOW}] and [{google.SPARK}]" in writers(healthy(), "state")[Level.OK].text
    assert google.AIRFLOW in writers(healthy(), "environment")[Level.OK].text
    assert google.SPARK in writers(healthy(), "spark_staging")[Level.OK].text


def test_a_profile_without_an_account_of_spark_makes_up_none() -> None:
    texts = [f.text for f in findings(healthy(), service_account=None) if f.subject.startswith("writers of ")]
    assert any(f"besides [{google.AIRFLOW}] these can write" in text for text in texts)
    assert not any("[None]" in text for text in texts)


@pytest.mark.parametrize(
    ("url", "level", "removal"),
    [
        (
            f"{google.STATE}/iam",
            "buckets/my-project-dedup-clone-state",
            "storage buckets remove-iam-policy-binding gs://",
        ),
        (google.PROJECT_POLICY, "projects/my-project", "projects remove-iam-policy-binding my-project "),
        (google.FOLDER_POLICY, "folders/17", "resource-manager folders remove-iam-policy-binding 17 "),
        (google.ORGANIZATION_POLICY, "organizations/4", "organizations remove-iam-policy-binding 4 "),
    ],
)
def test_another_account_that_can_write_state_is_named_from_wherever_it_has_the_right(
    url: str, level: str, removal: str
) -> None:
    for role in ("roles/storage.admin", "projects/my-project/roles/uploader"):
        answers = healthy()
        answers[url].setdefault("bindings", []).append(granted(role, "serviceAccount:x@y.iam.gserviceaccount.com"))
        found = writers(answers, "state")[Level.WARN]
        assert f"serviceAccount:x@y.iam.gserviceaccount.com ({role} on {level})" in found.text
        assert removal in found.command


def test_a_right_to_read_is_no_right_to_write() -> None:
    answers = healthy()
    answers[f"{google.STATE}/iam"]["bindings"].append(granted("roles/storage.objectViewer", "allUsers"))
    assert set(writers(answers, "state")) == {Level.OK}
    answers[f"{google.STATE}/iam"]["bindings"].append(granted("roles/storage.objectUser", "allAuthenticatedUsers"))
    assert "allAuthenticatedUsers" in writers(answers, "state")[Level.WARN].text


@pytest.mark.parametrize("url", [google.PROJECT_POLICY, f"{google.STATE}/iam"])
def test_a_condition_that_cannot_be_evaluated_counts_as_a_right(url: str) -> None:
    answers = healthy()
    member = "serviceAccount:x@y.iam.gserviceaccount.com"
    answers[url]["bindings"].append(granted("roles/storage.admin", member, expression="a || b"))
    found = writers(answers, "state")[Level.WARN]
    assert "under a condition" in found.text
    assert found.command.endswith(" --all")


def test_the_editors_of_the_project_write_a_bucket_that_names_them_as_a_group() -> None:
    answers = healthy()
    answers[f"{google.STATE}/iam"]["bindings"].append(
        granted("roles/storage.legacyBucketOwner", "projectEditor:my-project")
    )
    assert set(writers(answers, "state")) == {Level.OK}
    editor = "serviceAccount:42-compute@developer.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"].append(granted("roles/editor", editor))
    assert f"{editor} (roles/storage.legacyBucketOwner on buckets/" in writers(answers, "state")[Level.WARN].text


def test_people_and_googles_own_agents_are_a_note() -> None:
    answers = healthy()
    agent = "serviceAccount:service-42@dataproc-accounts.iam.gserviceaccount.com"
    answers[google.PROJECT_POLICY]["bindings"] += [
        granted("roles/owner", "user:anna@example.com"),
        granted("roles/dataproc.serviceAgent", agent),
    ]
    found = writers(answers, "state")
    assert set(found) == {Level.OK, Level.NOTE}
    assert "user:anna@example.com" in found[Level.NOTE].text
    assert agent in found[Level.NOTE].text


def test_policies_that_may_not_be_read_are_said() -> None:
    answers = healthy()
    answers[google.FOLDER_POLICY] = 403
    answers["https://iam.googleapis.com/v1/roles/storage.objectUser"] = 403
    (found,) = [f for f in findings(answers) if f.subject == "writers of the buckets"]
    assert "a policy above the buckets, status [403]" in found.text
    assert "the rights on [my-project-landing], status [403]" in found.text
