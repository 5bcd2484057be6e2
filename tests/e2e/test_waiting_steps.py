"""Steps in Airflow's own scheduler, triggerer and workers: what a wait, a refusal, an error and a skip end with."""

from __future__ import annotations

import os
import secrets
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from devstack.stack.ports import any_free_port
from testkit.local_servers import REPOSITORY, start_process, stop_process
from testkit.waiting import wait_for

# Each function notes its tries, so that the test sees how often it was called, and after which event.
DAG_FILE = """
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from dedup_clone.contract.errors import LeaseLost
from dedup_clone.orchestration.dag_factory import retry_arguments
from dedup_clone.orchestration.step import NotYet, Step


class NoFeed:
    def of(self, context):
        return self


def noted(run, name):
    file = Path(__file__).parent.parent / name
    with file.open("a") as notes:
        notes.write(f"try {run.try_number}, {'called again' if run.event else 'called'}\\n")
    return len(file.read_text().splitlines())


def wait_twice(run):
    if noted(run, "wait") < 3:
        raise NotYet("for the test", timedelta(seconds=1))
    return "waited"


def refuse(run):
    noted(run, "refuse")
    raise LeaseLost("somebody else has it")


def fail_once_after_a_wait(run):
    if not run.event:
        noted(run, "fail")
        raise NotYet("for the test", timedelta(seconds=1))
    if noted(run, "fail") == 2:
        raise OSError("the connection is lost")


def skip(run):
    run.skip(["left_out"], "skipped it")


arguments = {**retry_arguments(timedelta(hours=1)), "retry_delay": timedelta(seconds=1)}
with DAG("steps", schedule="@once", is_paused_upon_creation=False, default_args=arguments):
    names = ("wait", wait_twice), ("refuse", refuse), ("fail", fail_once_after_a_wait), ("skip", skip)
    wait, refused, failing, skipping = (Step(task_id=name, setup=NoFeed(), run=run) for name, run in names)
    after, left_out = (Step(task_id=name, setup=NoFeed(), run=lambda run: None) for name in ("after", "left_out"))
    wait >> after
    skipping >> left_out
"""
pytestmark = pytest.mark.soak  # Airflow takes minutes to start and to run the tasks
ENDED = ("success", "failed", "skipped", "upstream_failed")
PARTS = ("scheduler", "dag-processor", "triggerer")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of an Airflow that runs the DAG."""
    home, port = tmp_path_factory.mktemp("airflow"), any_free_port()
    (home / "dags").mkdir()
    (home / "dags" / "steps.py").write_text(DAG_FILE)
    settings = {
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": "2",
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "CORE__HOSTNAME_CALLABLE": "socket.gethostname",
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "API__SECRET_KEY": secrets.token_urlsafe(),
        "API_AUTH__JWT_SECRET": secrets.token_urlsafe(32),
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db",
        "DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "LOGGING__WORKER_LOG_SERVER_PORT": str(any_free_port()),
        "LOGGING__TRIGGER_LOG_SERVER_PORT": str(any_free_port()),
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.3",
    }
    environment = {
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "plugins"), str(REPOSITORY)]),
        **{f"AIRFLOW__{name}": value for name, value in settings.items()},
    }
    airflow = [sys.executable, "-m", "airflow"]
    subprocess.run([*airflow, "db", "migrate"], env={**os.environ, **environment}, check=True, capture_output=True)
    with ExitStack() as stack:
        server = [*airflow, "api-server", "--apps", "execution", "--host", "127.0.0.1", "--port", str(port)]
        health = f"http://127.0.0.1:{port}/execution/health"
        stack.callback(stop_process, start_process(server, health, home / "api-server.log", environment))
        for part in PARTS:
            output = stack.enter_context((home / f"{part}.log").open("ab"))
            process = subprocess.Popen(
                [*airflow, part], stdout=output, stderr=output, env={**os.environ, **environment}
            )
            stack.callback(stop_process, process)
        yield home


def ended_tasks(home: Path) -> dict[str, tuple[str, int]] | None:
    """State and number of tries of each task; None until all have ended."""
    with closing(sqlite3.connect(home / "airflow.db", timeout=30)) as database:
        found = database.execute("SELECT task_id, state, try_number FROM task_instance").fetchall()
    has_ended = bool(found) and all(state in ENDED for _, state, _ in found)
    return {task_id: (state, tries) for task_id, state, tries in found} if has_ended else None


def test_steps_wait_are_refused_and_are_tried_again(home: Path) -> None:
    """A wait costs no try. A refusal after which no retry helps costs one; tries are left for all."""
    tasks = wait_for(lambda: ended_tasks(home), "all tasks have ended", 200)
    assert tasks == {
        "wait": ("success", 1),
        "after": ("success", 1),
        "refuse": ("failed", 1),
        "fail": ("success", 2),
        "skip": ("success", 1),
        "left_out": ("skipped", 0),
    }
    again = "called again"
    assert (home / "wait").read_text().splitlines() == ["try 1, called", f"try 1, {again}", f"try 1, {again}"]
    assert (home / "refuse").read_text().splitlines() == ["try 1, called"]
    assert (home / "fail").read_text().splitlines() == [
        "try 1, called",
        f"try 1, {again}",
        "try 2, called",
        f"try 2, {again}",
    ]
