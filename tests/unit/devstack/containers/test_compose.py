"""docker-compose.yaml: what it exposes, who it runs as, what waits for what, and that its steps are the stack's own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.stack import airflow_settings, names_and_logins

REPOSITORY = Path(__file__).parents[4]
COMPOSE = yaml.safe_load((REPOSITORY / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_OFF = {"files", "stores", "migrate", "demo"}
DOCKERFILE = (REPOSITORY / "docker" / "Dockerfile").read_text()


def test_the_parts_are_those_of_the_stack() -> None:
    stores = {"postgres", "fake-gcs", "bigquery", "spark-history"}
    parts = {*stores, "api-server", "scheduler", "dag-processor", "triggerer"}
    assert set(SERVICES) == parts | ONE_OFF


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_bound_to_this_machine_only(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), port


@pytest.mark.parametrize("name", SERVICES)
def test_nothing_runs_as_root_nor_gains_rights(name: str) -> None:
    user, _, group = SERVICES[name]["user"].partition(":")
    assert int(user) > 0
    assert int(group) > 0
    assert SERVICES[name]["security_opt"] == ["no-new-privileges:true"]
    assert SERVICES[name]["cap_drop"] == ["ALL"]
    assert "privileged" not in SERVICES[name]


@pytest.mark.parametrize("name", sorted(set(SERVICES) - ONE_OFF))
def test_every_lasting_service_has_a_health_check_and_comes_back(name: str) -> None:
    assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
    assert SERVICES[name]["restart"] == "unless-stopped"


@pytest.mark.parametrize("name", sorted(ONE_OFF))
def test_one_off_services_run_once(name: str) -> None:
    assert SERVICES[name]["restart"] == "no"
    assert "healthcheck" not in SERVICES[name]


@pytest.mark.parametrize("name", SERVICES)
def test_waiting_asks_for_what_the_other_service_has(name: str) -> None:
    for other, wanted in SERVICES[name].get("depends_on", {}).items():
        expected = "service_completed_successfully" if other in ONE_OFF else "service_healthy"
        assert wanted == {"condition": expected}, other


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_built_here_or_pinned(name: str) -> None:
    image = SERVICES[name]["image"]
    if "build" in SERVICES[name]:
        assert (REPOSITORY / SERVICES[name]["build"]["dockerfile"]).exists()
    else:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+-[a-z]+", image), image


def test_volumes_are_declared_and_used() -> None:
    used = {volume.split(":")[0] for service in SERVICES.values() for volume in service.get("volumes", [])}
    assert used == set(COMPOSE["volumes"])


def test_the_image_is_built_from_the_lock_and_pinned() -> None:
    assert re.search(r"^FROM python:3\.11\.\d+-slim-[a-z]+$", DOCKERFILE, re.MULTILINE)
    assert "--require-hashes --no-deps -r /tmp/dev.lock" in DOCKERFILE
    pinned = re.search(r"^UV := (\S+)$", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    assert pinned is not None
    assert pinned.group(1) in DOCKERFILE
    assert "\nUSER 50000:50000\n" in DOCKERFILE


def test_what_the_image_copies_is_let_through_to_it() -> None:
    copied = re.findall(r"^COPY (\S+) ", DOCKERFILE, re.MULTILINE)
    ignored = (REPOSITORY / ".dockerignore").read_text().splitlines()
    for path in copied:
        assert (REPOSITORY / path).exists()
        assert f"!{path}" in ignored
    assert "*" in ignored


def test_the_lock_has_the_database_drivers() -> None:
    lock = (REPOSITORY / "requirements" / "dev.lock").read_text()
    for driver in ("psycopg2-binary==", "asyncpg=="):
        assert f"\n{driver}" in lock


def test_names_and_connections_are_the_stacks_own() -> None:
    environment = SERVICES["scheduler"]["environment"]
    assert environment["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS"] == names_and_logins.ROLES
    assert environment["GOOGLE_CLOUD_PROJECT"] == names_and_logins.PROJECT_ID
    assert environment["DEDUP_CLONE_STATE_BUCKET"] == names_and_logins.STATE_BUCKET
    for name, value in airflow_settings.connections().items():
        assert json.loads(environment[name]) == json.loads(value)


def test_no_secret_is_in_the_file() -> None:
    """Keys and the database's password are made by the first service, in a volume."""
    environment = SERVICES["scheduler"]["environment"]
    for setting in ("CORE__FERNET_KEY", "API__SECRET_KEY", "API_AUTH__JWT_SECRET", "DATABASE__SQL_ALCHEMY_CONN"):
        assert f"AIRFLOW__{setting}" not in environment
        assert environment[f"AIRFLOW__{setting}_CMD"].startswith("cat /local/keys/")
    assert "POSTGRES_PASSWORD" not in SERVICES["postgres"]["environment"]


def test_airflow_asks_commands_for_these_settings() -> None:
    """It does so for settings that it calls sensitive, and ignores the variable for all others."""
    from airflow.configuration import conf

    asked = [name.removesuffix("_CMD") for name in SERVICES["scheduler"]["environment"] if name.endswith("_CMD")]
    assert len(asked) == 4
    for name in asked:
        section, _, option = name.removeprefix("AIRFLOW__").lower().partition("__")
        assert (section, option) in conf.sensitive_config_values


def test_the_demo_is_the_same_as_outside() -> None:
    assert SERVICES["demo"]["command"] == ["python", "-m", "devstack.demo"]
    assert "$(PY) -m devstack.demo" in (REPOSITORY / "Makefile").read_text()


def compose_tool() -> list[str]:
    """The plugin of the Docker client, or the older program that Debian has."""
    if shutil.which("docker"):
        done = subprocess.run(["docker", "compose", "version"], capture_output=True, timeout=60, check=False)
        if done.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else []


@pytest.mark.skipif(not compose_tool(), reason="neither docker compose nor docker-compose is installed")
def test_the_compose_tool_takes_it_without_a_warning(tmp_path: Path) -> None:
    tool, text = compose_tool(), (REPOSITORY / "docker-compose.yaml").read_text()
    if tool == ["docker-compose"]:
        text = re.sub("^name: .*$", "", text, flags=re.MULTILINE)  # the only word that came after it
    (tmp_path / "docker-compose.yaml").write_text(text)
    place = ["--project-directory", str(REPOSITORY), "--file", str(tmp_path / "docker-compose.yaml")]
    command = [*tool, *place, "--profile", "demo", "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
