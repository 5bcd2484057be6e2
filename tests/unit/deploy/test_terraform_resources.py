"""The resources of deploy/terraform: their arguments are those of the provider's schema, and none is made too early."""

from __future__ import annotations

import pytest

from deploy.environment_settings import REPOSITORY
from tests.golden_files import assert_golden
from tests.unit.deploy.terraform_blocks import read_resources

RESOURCES = read_resources(REPOSITORY / "deploy" / "terraform")
APIS = {"google_project_service.needed", "google_project_service.policy_tags"}


def made_before(address: str) -> set[str]:
    """All that Terraform makes before this resource."""
    direct = {name for name in RESOURCES[address].references if name in RESOURCES}
    return direct.union(*map(made_before, direct))


def test_arguments_are_those_that_were_compared_with_the_providers_schema() -> None:
    """With that of hashicorp/google 7.9.0: each is in it and can be set, and none that it requires is missing.

    Compare what is new in the golden file with `terraform providers schema -json` before you accept it.
    """
    kinds = sorted({resource.kind for resource in RESOURCES.values()})
    of_kind = {kind: set[str]().union(*(r.arguments for r in RESOURCES.values() if r.kind == kind)) for kind in kinds}
    lines = [f"{kind} {argument}" for kind in kinds for argument in sorted(of_kind[kind])]
    assert len(lines) > 100
    assert_golden("terraform/arguments.txt", "\n".join(lines) + "\n")


@pytest.mark.parametrize("address", sorted(RESOURCES.keys() - APIS))
def test_a_resource_waits_until_apis_are_enabled(address: str) -> None:
    """In an empty project the first `terraform apply` would fail otherwise."""
    assert made_before(address) & APIS


def test_airflow_waits_for_its_roles_its_bucket_and_the_buckets_that_its_variables_name() -> None:
    """Managed Airflow checks the roles of its account when the environment is created."""
    assert made_before("google_composer_environment.airflow") >= {
        "google_project_iam_member.granted",
        "google_service_account.of",
        "google_storage_bucket.environment",
        "google_storage_bucket.state",
    }


def test_blocks_maps_and_texts_are_told_apart() -> None:
    assert "condition.expression" in RESOURCES["google_project_iam_member.granted"].arguments
    environment = RESOURCES["google_composer_environment.airflow"].arguments
    assert "config.workloads_config.triggerer.count" in environment
    assert {"config.software_config.env_variables", "labels"} <= environment
    assert not [argument for argument in environment if "DEDUP_CLONE" in argument]
