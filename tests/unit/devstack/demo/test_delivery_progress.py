"""Following a delivery against a small HTTP server that answers as Airflow's REST API does."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from devstack.connection import Connection
from devstack.demo import alert_test, delivery_progress
from devstack.demo.airflow_api import AirflowApi, DemoError, Task
from devstack.demo.delivery_progress import DeliveryProgress
from devstack.producer.landing import Landed
from devstack.stack.layout import CHECKOUT

LANDED = Landed("feed", 2, 99, datetime(2026, 3, 1, tzinfo=UTC), 13, 100, 1000, False)
RUN = "/api/v2/dags/feed_publish/dagRuns/publish__2__99"


class FakeAirflow:
    """Answers by path; a path that it does not know is a 404. Tokens are good for `token_uses` calls."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.token_uses = 1000
        self.logins = 0
        self.accepts_login = True
        self.url = ""

    def respond(self, method: str, path: str, token: str) -> tuple[int, Any]:
        if (method, path) == ("POST", "/auth/token"):
            self.logins += 1
            return (201, {"access_token": f"t{self.logins}"}) if self.accepts_login else (401, {})
        if token != f"Bearer t{self.logins}" or self.token_uses == 0:
            self.token_uses = 1000
            return 401, {}
        self.token_uses -= 1
        plain = path.split("?")[0]
        return (200, self.answers[plain]) if plain in self.answers else (404, {})


@pytest.fixture
def airflow() -> Iterator[FakeAirflow]:
    fake = FakeAirflow()

    class Handler(BaseHTTPRequestHandler):
        def handle_request(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = fake.respond(self.command, self.path, self.headers.get("Authorization", ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        do_GET = do_POST = handle_request

        def log_message(self, format: str, *args: object) -> None:
            """Nothing worth a line."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield fake
        server.shutdown()
        thread.join()


@pytest.fixture
def delivery(airflow: FakeAirflow, connection: Connection) -> DeliveryProgress:
    return DeliveryProgress(AirflowApi(replace(connection, airflow_url=airflow.url)), LANDED)


def test_the_alert_test_runs_its_dag_and_says_who_was_not_told(
    airflow: FakeAirflow,
    connection: Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    local = (CHECKOUT / "dags" / "profiles" / "local.yaml").read_text()
    (profiles / "local.yaml").write_text(local + "alerts:\n  webhooks: [alerts_slack]\n")
    monkeypatch.setenv("DEDUP_CLONE_DAGS_FOLDER", str(tmp_path))
    monkeypatch.setattr(alert_test, "connect", lambda: replace(connection, airflow_url=airflow.url))
    assert alert_test.main() == 1
    assert "does not know the DAG [alert_test] yet" in capsys.readouterr().err
    airflow.answers["/api/v2/dags/alert_test/dagRuns"] = {"dag_run_id": "manual__1"}
    run = "/api/v2/dags/alert_test/dagRuns/manual__1"
    airflow.answers[run] = {"state": "success"}
    assert alert_test.main() == 0
    assert "/dags/alert_test/runs/manual__1" in capsys.readouterr().out
    airflow.answers[run] = {"state": "failed"}
    airflow.answers[f"{run}/taskInstances"] = {"task_instances": [instance("send_test_alerts", "failed")]}
    failure = {
        "event": "Task failed",
        "error_detail": [{"exc_type": "AlertNotSent", "exc_value": "Notifier(s) failed: x"}],
    }
    airflow.answers[f"{run}/taskInstances/send_test_alerts/logs/1"] = {"content": [failure]}
    assert alert_test.main() == 1
    assert capsys.readouterr().err == "alert-test: AlertNotSent: Notifier(s) failed: x\n"


def test_the_alert_test_of_a_stack_that_tells_nobody_says_so_and_ends_well(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert alert_test.main() == 0
    said = capsys.readouterr()
    assert "local.yaml] names nobody" in said.out
    assert said.err == ""


def instance(task_id: str, state: str | None) -> dict[str, Any]:
    return {"task_id": task_id, "state": state, "try_number": 1, "map_index": -1}


def test_delivery_without_a_run_waits_for_the_sensor(delivery: DeliveryProgress) -> None:
    assert delivery.poll() == "feed 2: waits for the sensor"


def test_unnoticed_delivery_fails_and_names_run_and_watch_dag(
    airflow: FakeAirflow, delivery: DeliveryProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_progress, "SENSOR_TIMEOUT_S", -1.0)
    airflow.answers["/api/v2/dags/feed_watch"] = {"is_paused": True}
    with pytest.raises(DemoError, match=r"publish__2__99.*feed_watch.*paused: True"):
        delivery.poll()


def test_running_publish_shows_its_current_task(airflow: FakeAirflow, delivery: DeliveryProgress) -> None:
    airflow.answers[RUN] = {"state": "running"}
    airflow.answers[f"{RUN}/taskInstances"] = {
        "task_instances": [instance("resolve", "success"), instance("dedup", "deferred"), instance("load", None)]
    }
    assert delivery.poll() == "feed 2: dedup (deferred)"


def test_successful_run_ends_the_wait(airflow: FakeAirflow, delivery: DeliveryProgress) -> None:
    airflow.answers[RUN] = {"state": "success"}
    assert delivery.poll() is None


def test_failed_run_shows_task_end_of_its_log_and_address(airflow: FakeAirflow, delivery: DeliveryProgress) -> None:
    airflow.answers[RUN] = {"state": "failed"}
    airflow.answers[f"{RUN}/taskInstances"] = {
        "task_instances": [instance("dedup", "failed"), instance("load", "upstream_failed")]
    }
    details = [{"exc_type": "SnapshotRefused", "exc_value": "date is NULL in [3] rows"}]
    airflow.answers[f"{RUN}/taskInstances/dedup/logs/1"] = {
        "content": [{"event": "Starting"}, {"level": "error", "event": "Task failed", "error_detail": details}]
    }
    with pytest.raises(DemoError) as failed:
        delivery.poll()
    text = str(failed.value)
    assert "task [dedup] failed" in text
    assert "SnapshotRefused: date is NULL in [3] rows" not in text.splitlines()[0]
    assert "error Task failed" in text
    assert f"{airflow.url}/dags/feed_publish/runs/publish__2__99/tasks/dedup" in text


def test_run_that_takes_too_long_fails_with_its_address(
    airflow: FakeAirflow, delivery: DeliveryProgress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_progress, "RUN_TIMEOUT_S", -1.0)
    airflow.answers[RUN] = {"state": "running"}
    with pytest.raises(DemoError, match=r"between two tasks.*runs/publish__2__99"):
        delivery.poll()


def test_expired_token_is_renewed(airflow: FakeAirflow, delivery: DeliveryProgress) -> None:
    airflow.answers[RUN] = {"state": "success"}
    airflow.token_uses = 1
    assert delivery.poll() is None
    assert delivery.poll() is None
    assert airflow.logins == 2


def test_refused_login_is_said(airflow: FakeAirflow, delivery: DeliveryProgress) -> None:
    airflow.accepts_login = False
    with pytest.raises(DemoError, match="refused the login"):
        delivery.poll()


def test_airflow_that_is_down_is_said(connection: Connection) -> None:
    with pytest.raises(DemoError, match="does not answer"):
        DeliveryProgress(AirflowApi(connection), LANDED).poll()


def test_running_task_is_shown_before_waiting_ones() -> None:
    tasks = [Task("load", "scheduled", 0, -1), Task("dedup", "running", 1, -1)]
    assert delivery_progress.active_tasks(tasks) == "dedup (running)"


def test_log_without_errors_shows_its_last_lines() -> None:
    assert delivery_progress.error_lines([f"line {n}" for n in range(30)])[-1] == "line 29"
    assert delivery_progress.error_lines(["ok", "ValueError: no", "ok"]) == ["ValueError: no"]
