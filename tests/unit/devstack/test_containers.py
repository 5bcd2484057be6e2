"""docker-compose.yaml exposes nothing and runs nothing as root; its one-off steps make secrets and stores."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from devstack.containers import main
from devstack.http_calls import says_healthy
from devstack.stack import client_config, process_environment
from devstack.stack.layout import Layout
from devstack.stack.ports import any_free_port
from testkit.local_servers import start_fake_gcs, start_stand_in

REPOSITORY = Path(__file__).parents[3]
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((REPOSITORY / "docker-compose.yaml").read_text())["services"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_open_to_this_machine_only_has_no_rights_and_a_pinned_image(name: str) -> None:
    service = SERVICES[name]
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port) for port in service.get("ports", []))
    assert all(int(part) > 0 for part in service["user"].split(":"))
    assert (service["security_opt"], service["cap_drop"]) == (["no-new-privileges:true"], ["ALL"])
    assert "privileged" not in service
    assert "build" in service or re.fullmatch(r"[a-z]+:\d+\.\d+-[a-z]+", service["image"])


def test_secrets_are_commands_and_all_other_settings_are_those_of_the_stack() -> None:
    from airflow.configuration import conf

    scheduler = SERVICES["scheduler"]
    environment, shared = scheduler["environment"], client_config.read(REPOSITORY / scheduler["env_file"])
    assert shared == client_config.read(process_environment.SETTINGS)
    assert json.loads(shared["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[2]"
    assert not environment.keys() & shared.keys()
    for setting in ("CORE__FERNET_KEY", "API__SECRET_KEY", "API_AUTH__JWT_SECRET", "DATABASE__SQL_ALCHEMY_CONN"):
        assert f"AIRFLOW__{setting}" not in environment
        assert environment[f"AIRFLOW__{setting}_CMD"].startswith("cat /local/keys/")
        section, _, option = setting.lower().partition("__")
        assert (section, option) in conf.sensitive_config_values  # Airflow asks a command for no other setting


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("DEDUP_CLONE_LOCAL_DIR", str(tmp_path / "local"))
    monkeypatch.setenv("DEDUP_CLONE_DATABASE_HOST", "postgres")
    return Layout({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / "local")})


def test_secrets_are_made_once_and_for_the_group_only(layout: Layout) -> None:
    found = []
    for _ in range(2):
        assert main(["files"]) == 0
        found.append({path.name: path.read_text() for path in (layout.local / "keys").iterdir()})
    first, second = found
    assert set(first) == {"fernet_key", "jwt_secret", "api_secret_key", "database_url", "database_password"}
    assert first["database_url"] == f"postgresql+psycopg2://airflow:{first['database_password']}@postgres/airflow"
    assert {path.stat().st_mode & 0o007 for path in (layout.local / "keys").iterdir()} == {0}
    assert second == first


def test_stores_are_made_and_the_demo_finds_the_parts(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main(["files"])
    with start_fake_gcs(tmp_path / "gcs") as gcs, start_stand_in(tmp_path, gcs) as bigquery:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://{gcs}")
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", f"http://{bigquery}")
        monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", "bigquery:9060")
        monkeypatch.setenv("AIRFLOW_URL", "http://api-server:8080")
        assert main(["stores"]) == 0
        assert main(["stores"]) == 0  # a second start finds all of it
        assert says_healthy(f"http://{gcs}/storage/v1/b/landing")
        assert says_healthy(f"http://{bigquery}/bigquery/v2/projects/local-dev/datasets/warehouse")
    assert client_config.read(layout.stack_env)["AIRFLOW_URL"] == "http://api-server:8080"
    nobody = f"http://127.0.0.1:{any_free_port()}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", nobody)
    assert main(["stores"]) == 1
    assert main(["healthy", f"{nobody}/"]) == 1
