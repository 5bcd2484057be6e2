"""The stack's processes: a real supervisord and PostgreSQL in folders that are not easy, and nothing left over."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, text

from devstack.connection import connect
from devstack.stack import client_config, health, lifecycle, postgres, processes, supervisord
from devstack.stack.layout import CHECKOUT, Layout, StackError
from devstack.stack.parts import Part
from devstack.stack.ports import Ports, any_free_port
from testkit.waiting import wait_for

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
PARENT = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SLEEP!r}], start_new_session=True).wait()"
UNMARKED = (
    "import os, subprocess, sys; env = {k: v for k, v in os.environ.items() if k != 'DEDUP_CLONE_STACK'}; "
    f"subprocess.Popen([sys.executable, '-c', {SLEEP!r}], env=env).wait()"
)

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts Python code as a process of the stack in tmp_path, and returns when it runs."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, stack: Path = tmp_path) -> subprocess.Popen[str]:
        environment = {**os.environ, "DEDUP_CLONE_STACK": str(stack)}
        process = subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        return process

    yield run
    for process in started:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for one in (*children, process):
            one.kill()
        process.wait()


def test_sweep_ends_every_process_of_the_stack_and_none_of_another(tmp_path: Path, start: Start) -> None:
    """Even those that ignore the request, left the session, or dropped the marker."""
    stubborn, parent, unmarked = start(STUBBORN), start(PARENT), start(UNMARKED)
    other = start(SLEEP, tmp_path / "other")
    assert len(processes.of_stack(tmp_path)) == 5
    assert processes.sweep(tmp_path, timeout_s=0.3) == 5
    assert processes.of_stack(tmp_path) == []
    assert all(process.poll() is not None for process in (stubborn, parent, unmarked))
    assert other.poll() is None


@pytest.mark.timeout(20)  # an endless sweep must not wait for the timeout of all tests
def test_sweep_gives_up_on_a_process_that_survives(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(STUBBORN)
    monkeypatch.setattr(psutil.Process, "kill", lambda process: None)
    with pytest.raises(StackError):
        processes.sweep(tmp_path, timeout_s=0.05)


def test_cutting_tasks_off_ends_all_below_the_scheduler_and_leaves_it_running(start: Start) -> None:
    scheduler = start(PARENT)
    with processes.running_tasks_killed(scheduler.pid):
        wait_for(lambda: psutil.Process(scheduler.pid).status() == psutil.STATUS_STOPPED, "a stopped scheduler", 30)
    # Its only child has gone, so it is no longer held up by it and ends by itself.
    assert scheduler.wait(timeout=30) == 0


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    made = Layout({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / "a %s folder" / ".local")}, tmp_path)
    made.make_folders()
    yield made
    processes.sweep(made.local, timeout_s=0.5)
    made.remove_sockets()


def server(name: str) -> Part:
    port = any_free_port()
    command = (sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port))
    return Part(name, command, f"http://127.0.0.1:{port}/", environment={"GREETING": "100 % “fine”"})


def started(layout: Layout, *programs: Part) -> supervisord.Supervisor:
    layout.supervisor_conf.write_text(supervisord.render(layout, programs))
    supervisord.start_supervisord(layout, {**os.environ, "DEDUP_CLONE_STACK": str(layout.local)})
    supervisor = supervisord.Supervisor(layout.supervisor_socket)
    for program in programs:
        supervisor.start(program.name)
    return supervisor


def test_parts_start_are_waited_for_and_stop_without_a_trace(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    one = server("scheduler")
    late = dataclasses.replace(one, name="late", command=("sleep", "600"))  # another program answers at its port
    broken = Part("broken", (sys.executable, "-c", "raise SystemExit('no such folder')"), "http://127.0.0.1:1/")
    supervisor = started(layout, one, late, broken)
    lines: list[str] = []
    health.wait(layout, supervisor, (one,), timeout_s=60, log=lines.append)
    assert [line.split()[0] for line in lines] == ["scheduler"]
    with pytest.raises(StackError, match="no such folder"):
        health.wait(layout, supervisor, (broken,), timeout_s=60, log=print)
    with pytest.raises(StackError):
        health.wait(layout, supervisor, (late,), timeout_s=0, log=print)
    supervisor.stop("late")
    assert supervisor.part_states()["late"].state == "STOPPED"
    client_config.write(layout, Ports())
    assert lifecycle._stop(layout, supervisor) >= 2
    assert processes.of_stack(layout.local) == []
    assert not supervisor.is_alive()
    monkeypatch.setenv("DEDUP_CLONE_LOCAL_DIR", str(layout.local))
    with pytest.raises(StackError):
        connect()  # another stack may have the addresses by now


def test_a_stack_that_another_version_started_is_stopped(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = server("scheduler")
    supervisor = started(layout, scheduler)
    health.wait(layout, supervisor, (scheduler,), timeout_s=60, log=print)
    monkeypatch.setattr(supervisord, "GROUP", "unknown")
    lifecycle._stop(layout, supervisor)
    assert processes.of_stack(layout.local) == []


def test_the_database_stops_when_all_others_have_stopped(layout: Layout) -> None:
    """Each notes its end; those that write to the database take their time."""
    ends = layout.local / "ends"

    def notes_its_end(name: str, signal_name: str, seconds: float) -> Part:
        script = layout.local / f"{name}.py"
        end = f"time.sleep({seconds}); open({str(ends)!r}, 'a').write({name!r} + ' '); sys.exit()"
        handler = f"def end(*_): {end}\nsignal.signal(signal.SIG{signal_name}, end)\n"
        script.write_text(f"import signal, sys, time\n{handler}print('up', flush=True)\nwhile True: signal.pause()\n")
        is_up = ("grep", "up", str(layout.log_of(name)))
        return Part(name, (sys.executable, str(script)), "", stop_signal=signal_name, health_command=is_up)

    parts = (notes_its_end("scheduler", "TERM", 1.0), notes_its_end("database", "INT", 0.0))
    supervisor = started(layout, *parts)
    health.wait(layout, supervisor, parts, timeout_s=60, log=print)
    lifecycle._stop(layout, supervisor)
    assert ends.read_text().split() == ["scheduler", "database"]


def test_sockets_of_a_stack_in_a_long_path_are_in_the_temporary_folder_until_it_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    layout = Layout({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / ("deep" * 40))}, tmp_path)
    layout.make_folders()
    layout.supervisor_socket.touch()  # of a supervisord that was killed
    assert list(temporary.iterdir())
    lifecycle._stop(layout, supervisord.Supervisor(layout.supervisor_socket))
    assert list(temporary.iterdir()) == []


Serve = Callable[[Layout], subprocess.Popen[bytes]]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Makes the database where there is none, and returns when it takes connections."""
    servers: list[subprocess.Popen[bytes]] = []

    def started(layout: Layout) -> subprocess.Popen[bytes]:
        postgres.prepare(layout, os.environ)
        environment = {**os.environ, "DEDUP_CLONE_STACK": str(layout.local)}
        servers.append(subprocess.Popen(postgres.server_command(layout), env=environment, stderr=subprocess.PIPE))
        give_up = time.monotonic() + 60
        while subprocess.run(postgres.ready_command(layout)).returncode != 0:
            assert time.monotonic() < give_up
            assert servers[-1].poll() is None, servers[-1].communicate()
            time.sleep(0.05)
        return servers[-1]

    yield started
    for server in servers:
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)


def ask(layout: Layout, statement: str) -> list[tuple[object, ...]]:
    """As Airflow does."""
    with create_engine(postgres.url(layout)).begin() as connection:
        found = connection.execute(text(statement))
        return [tuple(row) for row in found] if found.returns_rows else []


@pytest.mark.parametrize("name", ['a %s folder, it\'s "ours"', "deep" * 40], ids=["odd characters", "long path"])
def test_the_database_answers_at_a_socket_of_its_owner_and_at_no_network(
    tmp_path: Path, name: str, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / name)}, tmp_path)
    layout.make_folders()
    (layout.database / "data.new" / "base").mkdir(parents=True)  # data that were made by half
    server = serve(layout)
    assert ask(layout, "SELECT current_user, inet_server_addr()") == [("airflow", None)]
    # The locks of a scheduler that was killed in a transaction end, though its workers live on.
    assert ask(layout, "SHOW idle_in_transaction_session_timeout") == [("1min",)]
    assert layout.sockets.joinpath(".s.PGSQL.5432").stat().st_mode & 0o077 == 0
    assert not [c for c in psutil.Process(server.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
    monkeypatch.setenv("PGPORT", "6543")  # the person's own
    assert subprocess.run(postgres.ready_command(layout), check=False).returncode == 0


def test_records_outlive_a_database_that_is_killed_whoever_has_its_process_id_now(layout: Layout, serve: Serve) -> None:
    server = serve(layout)
    ask(layout, "CREATE TABLE runs AS SELECT 1 AS run")
    ask(layout, "CHECKPOINT")
    children = psutil.Process(server.pid).children()
    server.kill()
    psutil.wait_procs(children, timeout=30)
    with subprocess.Popen([*postgres._unprivileged(), "sleep", "600"]) as other:
        for left in (layout.database / "data" / "postmaster.pid", layout.sockets / ".s.PGSQL.5432.lock"):
            lines = left.read_text().splitlines()
            left.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        try:
            serve(layout)
            assert ask(layout, "SELECT run FROM runs") == [(1,)]
        finally:
            other.kill()


def run_require(machine: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs devstack/require.sh, with the folder as the whole PATH."""
    command = [str(machine / "sh"), str(CHECKOUT / "devstack" / "require.sh"), *arguments]
    return subprocess.run(command, env={"PATH": str(machine), **variables}, capture_output=True, text=True, check=False)


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_what_the_machine_lacks_is_named_before_the_start(tmp_path: Path) -> None:
    for tool in ("sh", "sed", "head", "printf"):
        (tmp_path / tool).symlink_to(str(shutil.which(tool)))
    put(tmp_path, "make", "exit 0")
    put(tmp_path, "python3.11", "exit 1")  # unusable
    put(tmp_path, "python3.12", "exit 0")
    for version, status in (("1.8.0_292", 1), ("11.0.2", 1), ("17.0.15", 0), ("21", 0)):
        put(tmp_path, "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
        assert run_require(tmp_path).returncode == status, version
    assert run_require(tmp_path).stdout == "python3.12\n"
    assert run_require(tmp_path, PYTHON="other").returncode == 1
    for tool in ("make", "java", "python3.12"):
        text = (tmp_path / tool).read_text()
        (tmp_path / tool).unlink()
        done = run_require(tmp_path)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
        put(tmp_path, tool, text)
