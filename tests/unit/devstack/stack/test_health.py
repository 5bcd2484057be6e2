import json
import os
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from devstack.stack.health import is_healthy
from devstack.stack.parts import Part
from devstack.stack.supervisord import PartState

STARTED = datetime(2026, 5, 1, 12, tzinfo=UTC)
RUNNING = PartState("RUNNING", os.getpid(), STARTED)  # the server that answers is of this process
STATES = {"scheduler": RUNNING, "api_server": RUNNING}


@pytest.fixture
def answer() -> Iterator[dict[str, object]]:
    """What the health address answers; `url` is that address."""
    said: dict[str, object] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing worth a line."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        said["url"] = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield said
        server.shutdown()
        thread.join()


def scheduler(answer: dict[str, object]) -> Part:
    return Part("scheduler", ("x",), str(answer["url"]), heartbeat_name="scheduler")


@pytest.mark.parametrize(
    ("status", "age_s", "healthy"),
    [("healthy", -1, True), ("healthy", 1, False), ("unhealthy", -1, False), (None, None, False)],
    ids=["beats", "beat of an earlier process", "unhealthy", "never started"],
)
def test_airflow_part_is_healthy_by_its_own_heartbeat(
    answer: dict[str, object], status: str | None, age_s: int | None, healthy: bool
) -> None:
    beat = None if age_s is None else (STARTED - timedelta(seconds=age_s)).isoformat()
    answer["scheduler"] = {"status": status, "latest_scheduler_heartbeat": beat}
    assert is_healthy(scheduler(answer), STATES) is healthy


def test_part_that_airflow_does_not_mention_is_not_healthy(answer: dict[str, object]) -> None:
    assert not is_healthy(scheduler(answer), STATES)
    assert is_healthy(Part("api_server", ("x",), str(answer["url"])), STATES)


def test_an_answer_of_another_stack_on_the_port_is_not_health(answer: dict[str, object]) -> None:
    """Two checkouts may choose one port at one time. The part that lost it runs for seconds before it asks for it."""
    answer["scheduler"] = {"status": "healthy", "latest_scheduler_heartbeat": (STARTED + timedelta(1)).isoformat()}
    with subprocess.Popen(["sleep", "600"]) as without_port:
        states = {"scheduler": RUNNING, "api_server": PartState("RUNNING", without_port.pid, STARTED)}
        assert not is_healthy(Part("api_server", ("x",), str(answer["url"])), states)
        assert not is_healthy(scheduler(answer), states)
        without_port.kill()
    assert not is_healthy(scheduler(answer), states), "its process has ended"


@pytest.mark.parametrize(("end", "pid", "healthy"), [("true", 1, True), ("false", 1, False), ("true", 0, False)])
def test_part_with_a_command_is_healthy_when_it_runs_and_the_command_ends_well(
    end: str, pid: int, healthy: bool
) -> None:
    """While supervisord still calls it STARTING, too: nothing else can answer on a socket of our own."""
    database = Part("database", ("x",), "", health_command=(end,))
    assert is_healthy(database, {"database": PartState("STARTING", pid, STARTED)}) is healthy
