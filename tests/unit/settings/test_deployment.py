"""Profiles: selection by an environment variable, extension of another profile, and validation."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.deployment import read_deployment

PROFILES = Path(__file__).parents[3] / "dags" / "profiles"


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r"is \[prod\], expected one of \['dev', 'gcp', 'local', 'staging'\]"):
        read_deployment(PROFILES, {"DEDUP_CLONE_PROFILE": "prod"})


@pytest.mark.parametrize("name", ["dev", "staging"])
def test_an_environment_shares_no_data_store_with_production(name: str) -> None:
    production = read_deployment(PROFILES, {})
    other = read_deployment(PROFILES, {"DEDUP_CLONE_PROFILE": name})
    for key in ("project", "landing_bucket", "state_bucket"):
        assert getattr(other, key) != getattr(production, key)
    assert other.spark.staging_bucket != production.spark.staging_bucket
    assert other.spark.runtime_version == production.spark.runtime_version
    assert other.alerts == production.alerts


def profile_that_extends(folder: Path, base: str, **values: object) -> Path:
    for path in PROFILES.glob("*.yaml"):
        (folder / path.name).write_text(path.read_text())
    (folder / "mine.yaml").write_text(yaml.safe_dump({"extends": base, **values}))
    return folder


def test_a_section_of_an_extended_profile_is_merged_and_a_list_replaced(tmp_path: Path) -> None:
    values = {"spark": {"region": "europe-west4"}, "alerts": {"notifiers": [{"class_path": "a.B"}]}}
    mine = read_deployment(profile_that_extends(tmp_path, "gcp", **values), {"DEDUP_CLONE_PROFILE": "mine"})
    assert (mine.spark.region, mine.spark.subnetwork) == ("europe-west4", "dedup-clone")
    assert ([n.class_path for n in mine.alerts.notifiers], mine.alerts.runbook) == (["a.B"], "docs/runbook.md")


@pytest.mark.parametrize(
    ("base", "values", "fault"),
    [
        ("prod", {}, r"Profile \[mine\] extends \[prod\], expected one of"),
        ("mine", {}, r"extends \[mine\]"),
        ("gcp", {"landing_bucket": "one", "state_bucket": "one"}, r"\[one\] is the bucket of landing and of state"),
        ("staging", {}, r"extends \[staging\], expected one of .* that is complete and extends no other"),
        ("gcp", {"bucket": "b"}, r"mine\.yaml:1: unknown key \[bucket\]"),
        ("gcp", {"runner": "cluster", "spark": {"region": 1}}, r"mine\.yaml:\d: \[spark\.region\]"),
    ],
)
def test_an_error_of_a_profile_that_extends_another_names_its_file(
    base: str, values: dict[str, object], fault: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        read_deployment(profile_that_extends(tmp_path, base, **values), {"DEDUP_CLONE_PROFILE": "mine"})


def profile_with(folder: Path, *lines: str) -> Path:
    text, _ = (PROFILES / "local.yaml").read_text().split("spark:\n")
    (folder / "mine.yaml").write_text("\n".join([text.replace("runner: local", ""), *lines]))
    return folder


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["runner: serverless"], r"runner \[serverless\] needs \[spark\.region\]"),
        (["runner: cluster", "spark: {}"], r"runner \[cluster\] needs \[spark\.region\]"),
        (["runner: cluster", "spark:", "  region: us-east1"], r"runner \[cluster\] needs \[spark\.cluster\]"),
        (
            ["runner: serverless", "spark:", "  region: us-east1", '  runtime_version: "3.0"'],
            r"runner \[serverless\] needs \[spark\.service_account\]",
        ),
        (["runner: bigquery_procedure"], r"needs \[spark\.procedure_connection\]"),
        (["runner: serverless", "spark:", "  region: EU"], r"mine\.yaml:\d+: \[spark\.region\]"),
        (["runner: serverless", "spark:", "  regoin: europe-west1"], r"unknown key.*did you mean \[region\]"),
        (["runner: yarn"], r"\[runner\].*'local', 'serverless', 'cluster' or 'bigquery_procedure'"),
        (
            ["runner: cluster", "spark:", "  region: us-east1", "  disk_gb: 100"],
            r"mine\.yaml:\d+: \[spark\.disk_gb\] is no longer a setting: Runs create no clusters\. Use runner "
            r"\[serverless\], or name an existing cluster in \[spark\.cluster\]\. Remove the key\.",
        ),
        (
            ["runner: local", "organization_views: true"],
            r"mine\.yaml:\d+: \[organization_views\] is no longer a setting: Only materialized views of the profile's",
        ),
    ],
)
def test_a_profile_that_cannot_run_spark_is_refused(lines: list[str], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        read_deployment(profile_with(tmp_path, *lines), {"DEDUP_CLONE_PROFILE": "mine"})


LOCAL = (PROFILES / "local.yaml").read_text()
ALERTS = """
alerts:
  runbook: https://example.org/runbook.md
  notifiers:
    - class_path: airflow.providers.smtp.notifications.smtp.SmtpNotifier
      arguments: {to: [ops@example.org]}
"""


def test_notifiers_are_read_from_the_profile(tmp_path: Path) -> None:
    (tmp_path / "local.yaml").write_text(LOCAL.split("alerts:")[0] + ALERTS)
    alerts = read_deployment(tmp_path, {"DEDUP_CLONE_PROFILE": "local"}).alerts
    assert alerts.runbook == "https://example.org/runbook.md"
    assert alerts.notifiers[0].arguments["to"] == ["ops@example.org"]


def test_a_class_path_that_contains_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / "local.yaml").write_text(
        LOCAL.split("alerts:")[0] + ALERTS.replace("airflow.providers.smtp.notifications.smtp.SmtpNotifier", "os; x")
    )
    with pytest.raises(ConfigurationError, match=r"alerts.notifiers.0.class_path"):
        read_deployment(tmp_path, {"DEDUP_CLONE_PROFILE": "local"})
