"""The doctor looks for the network where it is, and for as many machines as the runner creates."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dedup_clone.settings.spark_settings import ClusterSettings, Runner
from deploy.doctor.finding import Finding, Level
from tests.contract.doctor import answers as google
from tests.contract.doctor.answers import healthy
from tests.contract.doctor.doctor_findings import findings

SHARED = "projects/host/regions/europe-west1/subnetworks/shared"
HOST_FIREWALLS = google.FIREWALLS.replace("my-project", "host")
QUOTAS = ("quota CPUS", "quota N2_CPUS", "quota DISKS_TOTAL_GB")
HOST_SUBNETWORK = f"https://compute.googleapis.com/compute/v1/{SHARED}"


def of_network(answers: dict[str, Any], runner: Runner = Runner.SERVERLESS, **settings: Any) -> dict[str, Finding]:
    found = findings(answers, runner, **settings)
    return {f.subject: f for f in found if f.subject.startswith(("subnetwork", "firewall", *QUOTAS, "network"))}


def faults(answers: dict[str, Any], runner: Runner = Runner.SERVERLESS, **settings: Any) -> dict[str, Finding]:
    found = of_network(answers, runner, **settings)
    return {subject: f for subject, f in found.items() if f.level is not Level.OK}


def with_shared_vpc() -> dict[str, Any]:
    """Subnetwork and firewall rules are in project `host` only."""
    answers = healthy()
    of_host = google.NETWORK.replace("my-project", "host")
    answers[HOST_SUBNETWORK] = {**answers.pop(google.SUBNETWORK), "network": of_host}
    answers[HOST_FIREWALLS] = copy.deepcopy(answers.pop(google.FIREWALLS))
    answers[HOST_FIREWALLS]["items"][0]["network"] = of_host
    return answers


@pytest.mark.parametrize("prefix", ["", "https://www.googleapis.com/compute/v1/"])
def test_a_shared_vpc_is_looked_up_in_its_own_project(prefix: str) -> None:
    answers, subnetwork = with_shared_vpc(), f"{prefix}{SHARED}"
    assert faults(answers, subnetwork=subnetwork) == {}
    answers[HOST_FIREWALLS]["items"] = []
    assert "--project=host" in faults(answers, subnetwork=subnetwork)["firewall"].command
    answers[HOST_SUBNETWORK]["privateIpGoogleAccess"] = False
    command = faults(answers, subnetwork=subnetwork)["subnetwork"].command
    assert command.startswith("gcloud compute networks subnets update shared ")
    assert "--project=host" in command
    del answers[HOST_SUBNETWORK]
    missing = faults(answers, subnetwork=subnetwork)["subnetwork"]
    assert (missing.level, "--project=host" in missing.command) == (Level.FAIL, True)


@pytest.mark.parametrize(("url", "subject"), [(HOST_SUBNETWORK, "subnetwork"), (HOST_FIREWALLS, "firewall")])
def test_a_shared_vpc_that_the_user_may_not_read_is_no_failure(url: str, subject: str) -> None:
    found = faults({**with_shared_vpc(), url: 403}, subnetwork=SHARED)
    assert {name: f.level for name, f in found.items()} == {subject: Level.WARN}
    assert found[subject].command == (
        "gcloud projects add-iam-policy-binding host --member=user:YOU --role=roles/compute.networkViewer "
        "--condition=None"
    )


def test_a_subnetwork_of_the_own_project_that_cannot_be_read_is_a_failure() -> None:
    found = faults({**healthy(), google.SUBNETWORK: 403})["subnetwork"]
    assert (found.level, "roles/compute.networkViewer" in found.command) == (Level.FAIL, True)


def test_a_subnetwork_of_another_region_is_found() -> None:
    found = faults(healthy(), subnetwork="regions/europe-west4/subnetworks/default")["subnetwork"]
    assert "is in [europe-west4], but Spark runs in [europe-west1]" in found.text


def test_a_rule_for_machines_with_tags_counts_if_sparks_machines_have_one() -> None:
    answers = healthy()
    answers[google.FIREWALLS]["items"][0]["targetTags"] = ["spark", "web"]
    assert set(faults(answers)) == {"firewall"}
    assert faults(answers, network_tags=("spark",)) == {}


@pytest.mark.parametrize(
    ("rule", "admits"),
    [
        ({"allowed": [{"IPProtocol": "tcp", "ports": ["1-65535"]}]}, True),
        ({"allowed": [{"IPProtocol": "tcp", "ports": ["1024-65535"]}]}, False),
        ({"targetServiceAccounts": [google.SPARK]}, True),
        ({"targetServiceAccounts": [google.AIRFLOW]}, False),
        ({"sourceRanges": [], "sourceServiceAccounts": [google.SPARK]}, True),
        ({"sourceRanges": [], "sourceTags": ["spark"]}, True),
        ({"sourceRanges": [], "sourceTags": ["web"]}, False),
    ],
)
def test_a_rule_may_name_sparks_machines_by_ports_tags_or_accounts(rule: dict[str, Any], admits: bool) -> None:
    answers = healthy()
    answers[google.FIREWALLS]["items"][0].update(rule)
    assert ("firewall" not in faults(answers, network_tags=("spark",))) is admits


def test_an_existing_cluster_needs_no_free_quota_and_has_its_own_network() -> None:
    answers = healthy()
    answers[google.REGION]["quotas"] = [{"metric": "DISKS_TOTAL_GB", "limit": 100, "usage": 100}]
    del answers[google.SUBNETWORK]
    assert of_network(answers, Runner.CLUSTER) == {}
    assert set(faults(answers)) == {"quota DISKS_TOTAL_GB", "subnetwork"}


@pytest.mark.parametrize(
    ("machine_type", "metric", "cpus", "disk_gb"),
    [
        ("n2-standard-8", "N2_CPUS", 24, 600),
        ("e2-standard-4", "CPUS", 12, 600),
        ("n1-highmem-2", "CPUS", 10, 1000),  # four workers have the cores of two executors
    ],
)
def test_a_cluster_that_is_created_needs_quota_for_its_own_machines(
    machine_type: str, metric: str, cpus: int, disk_gb: int
) -> None:
    answers, cluster = healthy(), ClusterSettings(machine_type=machine_type)
    quotas = {metric: cpus, "DISKS_TOTAL_GB": disk_gb}
    for missing in (0, 1):
        answers[google.REGION]["quotas"] = [
            {"metric": name, "limit": needed + 3 - missing, "usage": 3} for name, needed in quotas.items()
        ]
        assert set(faults(answers, Runner.CLUSTER, cluster=cluster)) == {f"quota {name}" for name in quotas if missing}
