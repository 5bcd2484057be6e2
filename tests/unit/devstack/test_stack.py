"""The stack's ports, and the settings and the health of its parts."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from dedup_clone.settings.deployment import read_deployment
from devstack.stack import client_config, health, ports, process_environment
from devstack.stack.layout import CHECKOUT, Layout
from devstack.stack.parts import Part
from devstack.stack.supervisord import PartState

PORTS = ports.Ports(gcs=11, bigquery=14, airflow=15)
STARTED = datetime(2026, 5, 1, 12, tzinfo=UTC)
RUNNING = PartState("RUNNING", os.getpid(), STARTED)  # the server that answers is of this process


@contextmanager
def listener(address: str = "127.0.0.1") -> Iterator[int]:
    with socket.create_server((address, 0)) as server:
        yield server.getsockname()[1]


def test_a_port_is_taken_while_somebody_listens_at_any_address() -> None:
    for address in ("127.0.0.1", "0.0.0.0"):
        with listener(address) as port:
            assert not ports.is_free(port)
    # Linux gives those from 32768 on to outgoing connections.
    assert all(ports.any_free_port() < 32_768 for _ in range(20))


def test_ports_are_kept_over_restarts_and_a_taken_one_is_replaced(tmp_path: Path) -> None:
    free: dict[str, int] = {}
    for name in asdict(ports.Ports()):
        free[name] = ports.any_free_port(free.values())
    file = tmp_path / "ports.json"
    file.write_text(json.dumps(free))
    said: list[str] = []
    assert asdict(ports.choose(file, said.append)) == free
    assert said == []
    with listener() as taken:
        file.write_text(json.dumps(free | {"airflow": taken}))
        moved = ports.choose(file, said.append)
    assert moved.airflow != taken
    assert said == [f"  port {taken} is taken by another program: airflow uses {moved.airflow} instead"]
    file.write_text(json.dumps(dict.fromkeys(free, free["airflow"])))
    assert len(set(asdict(ports.choose(file, print)).values())) == len(free)
    file.write_text('{"unknown": 1}')
    assert ports.read_saved(file) is None


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = Layout({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / "it's a folder")}, tmp_path)
    layout.make_folders()
    return layout


def built(layout: Layout, **environ: str) -> dict[str, str]:
    return process_environment.build(layout, PORTS, environ)


def test_the_persons_own_settings_do_not_reach_the_parts(layout: Layout) -> None:
    parts = built(
        layout,
        AIRFLOW__CORE__EXECUTOR="CeleryExecutor",
        GOOGLE_APPLICATION_CREDENTIALS="/key",
        PGOPTIONS="-c search_path=theirs",
        PYTHONPATH="/x",
        PATH="/usr/bin",
        JAVA_HOME="/java",
        NO_PROXY="corp.example",
        AIRFLOW_CONN_SPARK_DEFAULT="theirs",
        AIRFLOW_CONN_ALERTS_SLACK="{}",
    )
    assert not {"GOOGLE_APPLICATION_CREDENTIALS", "PGOPTIONS"} & parts.keys()
    assert "/x" not in parts["PYTHONPATH"].split(os.pathsep)
    assert json.loads(parts["AIRFLOW_CONN_SPARK_DEFAULT"])["host"] == "local[2]"
    expected = {
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "NO_PROXY": "127.0.0.1,localhost,corp.example",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}/usr/bin",
        "JAVA_HOME": "/java",
        "AIRFLOW_CONN_ALERTS_SLACK": "{}",
        "DEDUP_CLONE_STACK": str(layout.local),
        "DEDUP_CLONE_SPARK_CODE": str(layout.spark_code),
        "STORAGE_EMULATOR_HOST": "http://127.0.0.1:11",
        "BIGQUERY_EMULATOR_HOST": "http://127.0.0.1:14",
    }
    assert {name: parts[name] for name in expected} == expected


def test_secrets_are_made_once_for_their_owner_and_airflows_settings_import_nothing_heavy(layout: Layout) -> None:
    names = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__API__SECRET_KEY")
    first, second = ([built(layout)[name] for name in names] for _ in range(2))
    assert (first, len(set(first))) == (second, 3)
    assert [path.stat().st_mode & 0o077 for path in (layout.local / "keys").iterdir()] == [0, 0, 0]
    process_environment.write_airflow_files(layout)
    code = "import airflow_local_settings, sys; sys.exit('google.cloud.bigquery' in sys.modules)"
    variables = {"PYTHONPATH": str(layout.airflow_home / "config"), "PATH": os.environ["PATH"]}
    subprocess.run([sys.executable, "-c", code], env=variables, check=True)


def test_a_shell_gets_the_stacks_addresses_and_profile_from_stack_env(layout: Layout) -> None:
    client_config.write(layout, PORTS)
    command = f"set -a; . {shlex.quote(str(layout.stack_env))}; {shlex.quote(sys.executable)} -c "
    command += shlex.quote("import json, os; print(json.dumps(dict(os.environ)))")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, env={"PATH": "/bin"})
    variables = client_config.read(layout.stack_env)
    assert variables.items() <= json.loads(done.stdout).items()
    assert variables["AIRFLOW_URL"] == "http://127.0.0.1:15"
    assert variables["CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"] == "http://127.0.0.1:11/storage/v1/"
    assert "api = http://127.0.0.1:14" in Path(variables["BIGQUERYRC"]).read_text()
    assert "DEDUP_CLONE_STACK" not in variables  # the end of the stack would end such a shell, too
    profile = read_deployment(CHECKOUT / "dags" / "profiles", variables)
    assert (profile.project, profile.state_bucket) == (variables["PROJECT_ID"], variables["STATE_BUCKET"])


@contextmanager
def serving(server: HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    with server:
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def answer() -> Iterator[dict[str, object]]:
    """What Airflow's health address, `url`, answers."""
    said: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Logs nothing."""

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as url:
        said["url"] = url
        yield said


@pytest.mark.parametrize(
    ("status", "age_s", "healthy"),
    [("healthy", -1, True), ("healthy", 1, False), ("unhealthy", -1, False), (None, None, False)],
    ids=["beats", "beat of an earlier process", "unhealthy", "never started"],
)
def test_a_part_of_airflow_is_healthy_by_its_own_heartbeat(
    answer: dict[str, object], status: str | None, age_s: int | None, healthy: bool
) -> None:
    beat = None if age_s is None else (STARTED - timedelta(seconds=age_s)).isoformat()
    answer["scheduler"] = {"status": status, "latest_scheduler_heartbeat": beat}
    scheduler = Part("scheduler", ("x",), str(answer["url"]), has_heartbeat=True)
    assert health.is_healthy(scheduler, {"scheduler": RUNNING, "api_server": RUNNING}) is healthy


def test_the_answer_of_another_stack_at_the_port_is_not_health(answer: dict[str, object]) -> None:
    """Two checkouts may choose one port at one time. The part that lost it runs for seconds before it asks for it."""
    api_server = Part("api_server", ("x",), str(answer["url"]))
    assert health.is_healthy(api_server, {"api_server": RUNNING})
    with subprocess.Popen(["sleep", "600"]) as without_port:
        states = {"api_server": PartState("RUNNING", without_port.pid, STARTED)}
        assert not health.is_healthy(api_server, states)
        without_port.kill()
