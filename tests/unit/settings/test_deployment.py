"""The profile is chosen by one environment variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.spark_settings import Runner

PROFILES = Path(__file__).parents[3] / "dags" / "profiles"


def test_the_variable_chooses_the_profile() -> None:
    assert read_deployment(PROFILES, {"DEDUP_CLONE_PROFILE": "local"}).runner is Runner.LOCAL


def test_production_needs_no_variable() -> None:
    assert read_deployment(PROFILES, {}).runner is Runner.SERVERLESS


def test_an_unknown_profile_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"is \[prod\], expected one of \['gcp', 'local'\]"):
        read_deployment(PROFILES, {"DEDUP_CLONE_PROFILE": "prod"})


def profile_with(folder: Path, *lines: str) -> Path:
    text = (PROFILES / "local.yaml").read_text()
    (folder / "mine.yaml").write_text("\n".join([text.replace("runner: local", ""), *lines]))
    return folder


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (["runner: serverless"], r"runner \[serverless\] needs \[spark\.region\]"),
        (["runner: cluster", "spark: {}"], r"runner \[cluster\] needs \[spark\.region\]"),
        (
            ["runner: serverless", "spark:", "  region: us-east1", '  runtime_version: "3.0"'],
            r"runner \[serverless\] needs \[spark\.service_account\]",
        ),
        (["runner: bigquery_procedure"], r"needs \[spark\.procedure_connection\]"),
        (["runner: serverless", "spark:", "  region: EU"], r"mine\.yaml:\d+: \[spark\.region\]"),
        (["runner: serverless", "spark:", "  regoin: europe-west1"], r"unknown key.*did you mean \[region\]"),
        (["runner: yarn"], r"\[runner\].*'local', 'serverless', 'cluster' or 'bigquery_procedure'"),
        (["runner: cluster", "spark:", "  region: us-east1", "  cluster: {idle_delete_minutes: 1}"], "greater than"),
    ],
)
def test_a_profile_that_cannot_run_spark_is_refused(lines: list[str], fault: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        read_deployment(profile_with(tmp_path, *lines), {"DEDUP_CLONE_PROFILE": "mine"})
