"""Terraform: formatted, makes each grant of the one list once, in an order that works, and as the settings say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from dedup_clone.orchestration.watchdog.feed_check import feed_metrics, gauges_line
from dedup_clone.settings.feed import ExpectedArrivals
from deploy.environment_settings import REPOSITORY, read_environment, read_profile
from deploy.terraform_lists import Bucket, bucket_condition, read_grants, read_required_apis
from tests.shared.freshness_states import NOW, feed_state, minutes, waits
from tests.shared.required_tools import require_terraform

TERRAFORM = REPOSITORY / "deploy" / "terraform"
TEXT = "\n".join(path.read_text() for path in sorted(TERRAFORM.glob("*.tf")))
RESOURCE = re.compile(r'^resource "(\w+)" "(\w+)" \{$(.*?)^\}$', re.MULTILINE | re.DOTALL)
RESOURCES = {f"{kind}.{name}": body for kind, name, body in RESOURCE.findall(TEXT)}
REFERENCE = re.compile(r"\b(google_\w+\.\w+|local\.\w+)\b")
LOCALS = {f"local.{name}": REFERENCE.findall(value) for name, value in re.findall(r"^  (\w+) += (.*)$", TEXT, re.M)}
APIS = {"google_project_service.needed", "google_project_service.policy_tags"}


def terraform(*arguments: str, folder: Path, text: str = "") -> str:
    done = subprocess.run(
        [require_terraform(), *arguments],
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


def test_files_are_formatted() -> None:
    terraform("fmt", "-check", "-recursive", folder=TERRAFORM)


def console(expression: str, folder: Path, **variables: str) -> Any:
    """The value of an expression of locals and variables. Terraform itself reads the lists; no provider is needed."""
    for name in ("variables.tf", "locals.tf", "grants.yaml", "services.yaml"):
        shutil.copy(TERRAFORM / name, folder)
    options = [part for item in {"project": "my-project", **variables}.items() for part in ("-var", "=".join(item))]
    printed = terraform("console", *options, folder=folder, text=f"jsonencode({expression})\n")
    return json.loads(json.loads(printed.strip().splitlines()[-1]))


def test_the_environment_has_each_variable_that_the_doctor_expects() -> None:
    expected = set(re.findall(r"envVariables\.(\w+)", (REPOSITORY / "deploy/doctor/settings.yaml").read_text()))
    found = re.findall(r"^ +(DEDUP_CLONE_\w+) +=", RESOURCES["google_composer_environment.airflow"], re.M)
    assert expected == set(found)


def test_records_keep_former_versions_and_data_do_not() -> None:
    """Messages and runbook promise that records can be restored for 30 days."""
    state = TEXT[TEXT.index('"google_storage_bucket" "state"') :].split("\nresource ")[0]
    assert "versioning {\n    enabled = true" in state
    assert "days_since_noncurrent_time = var.record_versions_days" in state
    assert re.search(r'days_since_noncurrent_time = 1\n *matches_suffix *= \["\.parquet", "\.bin"\]', state)
    assert state.count("days_since_noncurrent_time") == state.count('type = "Delete"')
    assert re.search(r'"record_versions_days" \{[^}]*default *= 30', TEXT)


def test_each_grant_is_made_by_exactly_one_resource(tmp_path: Path) -> None:
    kinds = ("project", "dataset", "bucket", "account")
    lists = ", ".join(f"[for grant in local.{kind}_grants : [grant.who, grant.role, grant.place]]" for kind in kinds)
    made = sorted(tuple(grant) for grant in console(f"concat({lists})", tmp_path))
    assert made == sorted((str(grant.who), grant.role, str(grant.place)) for grant in read_grants())


def test_conditions_are_those_that_the_doctor_looks_for(tmp_path: Path) -> None:
    names = console("local.bucket_names", tmp_path)
    assert set(names) == set(Bucket)
    assert console("local.conditions", tmp_path) == {key: bucket_condition(name) for key, name in names.items()}
    assert re.findall(r"local\.conditions\[(.+)\]", TEXT) == ["condition.value"]
    for key in names:
        assert f"name                        = local.bucket_names.{key}\n" in TEXT


def test_every_api_is_enabled_and_data_lie_in_the_region_by_default(tmp_path: Path) -> None:
    assert console("keys(local.services)", tmp_path) == sorted(service.api for service in read_required_apis())
    assert "for_each = local.services" in TEXT
    assert console("[local.location, var.region]", tmp_path) == ["europe-west1", "europe-west1"]


def test_the_past_of_tables_with_row_policies_is_read_only_if_a_feed_has_some() -> None:
    """docs/adr/0013-row-policies.md: least privilege for environments without such feeds."""
    resources = re.findall(r'resource "\w+" "read_past" \{(.*?)\n\}', TEXT, re.DOTALL)
    assert [re.findall(r"count *= (.*)", resource) for resource in resources] == [["var.row_policies ? 1 : 0"]] * 2
    assert re.search(r'variable "row_policies" \{[^}]*default *= false', TEXT)


def test_an_environment_has_a_name_and_a_second_one_buckets_of_its_own(tmp_path: Path) -> None:
    assert console("local.environment_name", tmp_path) == "my-project/europe-west1/dedup-clone"
    assert re.search(r"DEDUP_CLONE_ENVIRONMENT += local\.environment_name\n", TEXT)
    one, other = console("local.bucket_names", tmp_path), console("local.bucket_names", tmp_path, own_buckets="second")
    assert {key for key in one if one[key] == other[key]} == {"landing", "state"}


def test_roles_with_rights_on_every_bucket_are_limited_to_one() -> None:
    """These two roles write objects (iam/docs/roles-permissions/composer, dataproc)."""
    limited = {grant.role: grant.only_bucket for grant in read_grants() if grant.place == "project"}
    assert limited["roles/composer.worker"] is Bucket.ENVIRONMENT
    assert limited["roles/dataproc.worker"] is Bucket.SPARK_STAGING


def test_airflow_options_are_within_the_limits_of_managed_airflow() -> None:
    """composer/docs/airflow-configurations: limited options of generation 3. Option -> least, greatest."""
    limits = {
        "dag_file_processor_timeout": (0, 600),
        "dagbag_import_timeout": (overridden("dag_file_processor_timeout"), 600),
        "min_file_process_interval": (30, 10**9),
        "scheduler_heartbeat_sec": (15, 10**9),
        "job_heartbeat_sec": (30, 10**9),
        "triggerer_health_check_threshold": (30, 10**9),
        "scheduler_health_check_threshold": (30, 10**9),
    }
    for option in re.findall(r'"[a-z_]+-([a-z_]+)"\s+= "', TEXT):
        least, greatest = limits[option]
        assert least <= overridden(option) <= greatest, option


def overridden(option: str) -> int:
    (value,) = re.findall(rf'"[a-z_]+-{option}"\s+= "(\d+)"', TEXT)
    return int(value)


def feed_gauges() -> list[str]:
    """The gauges of each feed of which Terraform makes metrics."""
    (block,) = re.findall(r"feed_gauges = \{(.+?)\}", TEXT, re.DOTALL)
    return re.findall(r"(\w+) += ", block)


@pytest.mark.parametrize("waited", [minutes(45), timedelta(seconds=0.2)])
def test_metrics_are_found_in_the_lines_that_the_watchdog_logs(waited: timedelta) -> None:
    """Of 5e-05, the share of the SLA right after an arrival, 5 would be read, and an alert would follow."""
    values = feed_metrics(NOW, feed_state(waiting=(waits(waited),), expected=ExpectedArrivals(times=("11:00",))), 1)
    line, heartbeat = gauges_line(values, feed="store_visits"), gauges_line({"feeds_checked": 200.0})
    (pattern,) = re.findall(r'feed = "REGEXP_EXTRACT\(textPayload, \\"(.+)\\"\)"', TEXT)
    assert re.findall(pattern, line) == ["store_visits"]
    gauges = feed_gauges()
    assert {"sla_share_used", "waiting_seconds"} <= set(gauges) <= set(values)
    (template,) = re.findall(r'REGEXP_EXTRACT\(textPayload, \\"( \$\{each.key\}=.+)\\"\)"', TEXT)
    for gauge in gauges:
        found = [float(value) for value in re.findall(template.replace("${each.key}", gauge), line)]
        assert found == [pytest.approx(values[gauge], abs=0.0001)], gauge
    (pattern,) = re.findall(r'REGEXP_EXTRACT\(textPayload, \\"( feeds_checked=.+)\\"\)"', TEXT)
    assert re.findall(pattern, heartbeat) == ["200"]
    (marker,) = re.findall(r'"textPayload:\\"(\w+)\\""', TEXT)
    assert line.startswith(marker)
    assert heartbeat.startswith(marker)


def test_every_list_of_grants_is_used() -> None:
    for kind in ("project", "dataset", "bucket", "account"):
        assert f"for_each = local.{kind}_grants" in TEXT


def test_names_of_the_examples_are_those_that_terraform_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DEDUP_CLONE_PROFILE", raising=False)
    profile, environment = read_profile(), read_environment()
    project = profile.project
    buckets = {
        Bucket.LANDING: profile.landing_bucket,
        Bucket.STATE: profile.state_bucket,
        Bucket.ENVIRONMENT: environment.bucket,
        Bucket.SPARK_STAGING: str(profile.spark.staging_bucket),
    }
    for key, name in buckets.items():
        suffix = name.removeprefix(project)
        assert f'"${{var.project}}{suffix}"' in TEXT.replace("${var.own_buckets}", "dedup-clone"), key
    assert (environment.region, profile.location) == (profile.spark.region, profile.spark.region)
    assert environment.airflow == f"dedup-clone-airflow@{project}.iam.gserviceaccount.com"
    assert profile.spark.service_account == f"dedup-clone-spark@{project}.iam.gserviceaccount.com"
    assert environment.producer == f"dedup-clone-producer@{project}.iam.gserviceaccount.com"


def test_nobody_gets_a_basic_role_nor_a_key() -> None:
    assert not re.search(r"roles/(owner|editor|viewer)\b", TEXT + (TERRAFORM / "grants.yaml").read_text())
    assert "google_service_account_key" not in TEXT
    assert "allUsers" not in TEXT


def made_before(address: str) -> set[str]:
    """All that Terraform makes before this resource: what it refers to, also by a local value of one line."""
    named = set(REFERENCE.findall(RESOURCES[address]))
    direct = named.union(*(LOCALS.get(name, []) for name in named)) & RESOURCES.keys()
    return direct.union(*map(made_before, direct))


def test_a_resource_waits_until_apis_are_enabled() -> None:
    """In an empty project the first `terraform apply` would fail otherwise."""
    assert len(RESOURCES) > 20
    assert [address for address in RESOURCES.keys() - APIS if not made_before(address) & APIS] == []


def test_airflow_waits_for_its_roles_its_bucket_and_the_buckets_that_its_variables_name() -> None:
    """Managed Airflow checks the roles of its account when the environment is created."""
    assert made_before("google_composer_environment.airflow") >= {
        "google_project_iam_member.granted",
        "google_service_account.of",
        "google_storage_bucket.environment",
        "google_storage_bucket.state",
    }
