"""Terraform: formatted, makes each grant of the one list once, and agrees with the settings and the docs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploy.environment_settings import REPOSITORY, read_environment, read_profile
from deploy.grants import as_table, read_grants

TERRAFORM = REPOSITORY / "deploy" / "terraform"
TEXT = "\n".join(path.read_text() for path in sorted(TERRAFORM.glob("*.tf")))
needs_terraform = pytest.mark.skipif(shutil.which("terraform") is None, reason="the tool terraform is not installed")


def terraform(*arguments: str, folder: Path, text: str = "") -> str:
    done = subprocess.run(
        ["terraform", *arguments],
        cwd=folder,
        input=text,
        env={**os.environ, "CHECKPOINT_DISABLE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_terraform
def test_files_are_formatted() -> None:
    terraform("fmt", "-check", "-recursive", folder=TERRAFORM)


@needs_terraform
def test_each_grant_is_made_by_exactly_one_resource(tmp_path: Path) -> None:
    """Terraform itself reads the list; no provider is needed for that."""
    for name in ("variables.tf", "locals.tf", "grants.yaml"):
        shutil.copy(TERRAFORM / name, tmp_path)
    kinds = ("project", "dataset", "bucket", "account")
    lists = ", ".join(f"[for grant in local.{kind}_grants : [grant.who, grant.role, grant.place]]" for kind in kinds)
    printed = terraform("console", "-var", "project=my-project", folder=tmp_path, text=f"jsonencode(concat({lists}))\n")
    made = sorted(tuple(grant) for grant in json.loads(json.loads(printed.strip().splitlines()[-1])))
    assert made == sorted((str(grant.who), grant.role, str(grant.place)) for grant in read_grants())


def test_every_list_of_grants_is_used() -> None:
    for kind in ("project", "dataset", "bucket", "account"):
        assert f"for_each = local.{kind}_grants" in TEXT


def test_names_of_the_examples_are_those_that_terraform_makes() -> None:
    profile, environment = read_profile(), read_environment()
    project = profile.project
    assert f'"${{var.project}}{profile.landing_bucket.removeprefix(project)}"' in TEXT
    assert f'"${{var.project}}{profile.state_bucket.removeprefix(project)}"' in TEXT
    assert environment.airflow == f"dedup-clone-airflow@{project}.iam.gserviceaccount.com"
    assert profile.spark.service_account == f"dedup-clone-spark@{project}.iam.gserviceaccount.com"
    assert environment.producer == f"dedup-clone-producer@{project}.iam.gserviceaccount.com"


def test_nobody_gets_a_basic_role_nor_a_key() -> None:
    assert not re.search(r"roles/(owner|editor|viewer)\b", TEXT + (TERRAFORM / "grants.yaml").read_text())
    assert "google_service_account_key" not in TEXT
    assert "allUsers" not in TEXT


def test_the_table_in_the_docs_is_the_list() -> None:
    assert as_table(read_grants()) in (REPOSITORY / "docs" / "security.md").read_text()
