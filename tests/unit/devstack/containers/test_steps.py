"""The one-off steps of the containers, outside of containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from devstack.containers.__main__ import is_healthy, main
from devstack.stack import client_config
from devstack.stack.layout import Layout
from devstack.stack.ports import any_free_port
from testkit.local_servers import start_fake_gcs, start_stand_in


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setenv("DEDUP_CLONE_LOCAL_DIR", str(tmp_path / "local"))
    monkeypatch.setenv("DEDUP_CLONE_DATABASE_HOST", "postgres")
    return Layout.from_environment({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / "local")})


def keys(layout: Layout) -> dict[str, str]:
    return {path.name: path.read_text() for path in (layout.local / "keys").iterdir()}


def test_secrets_are_made_once_and_for_the_group_only(layout: Layout) -> None:
    assert main(["files"]) == 0
    first = keys(layout)
    assert set(first) == {"fernet_key", "jwt_secret", "api_secret_key", "database_url", "database_password"}
    assert first["database_url"] == f"postgresql+psycopg2://airflow:{first['database_password']}@postgres/airflow"
    assert {path.stat().st_mode & 0o007 for path in (layout.local / "keys").iterdir()} == {0}

    assert main(["files"]) == 0
    assert keys(layout) == first


def test_logins_are_those_of_the_stack(layout: Layout) -> None:
    main(["files"])
    assert '"admin": "admin"' in (layout.airflow_home / "passwords.json").read_text()
    assert (layout.airflow_home / "config" / "airflow_local_settings.py").exists()


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
        assert is_healthy(f"http://{gcs}/storage/v1/b/landing")
        assert is_healthy(f"http://{bigquery}/bigquery/v2/projects/local-dev/datasets/warehouse")
        assert main(["healthy", f"http://{bigquery}/_standin/health"]) == 0
    written = client_config.read(layout.stack_env)
    assert (written["AIRFLOW_URL"], written["BIGQUERY_STORAGE_EMULATOR_HOST"]) == (
        "http://api-server:8080",
        "bigquery:9060",
    )


def test_a_storage_that_does_not_answer_is_named(
    layout: Layout, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{any_free_port()}"
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", url)
    assert main(["stores"]) == 1
    assert capsys.readouterr().err.startswith(f"containers: POST {url}/storage/v1/b?project=local-dev got no answer")


def test_a_part_that_does_not_answer_is_not_healthy() -> None:
    assert main(["healthy", f"http://127.0.0.1:{any_free_port()}/"]) == 1
