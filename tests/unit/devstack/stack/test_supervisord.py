"""A real supervisord with small programs."""

import dataclasses
import json
import os
import sys
import tempfile
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.connection import connect
from devstack.stack import client_config, health, lifecycle, processes, supervisord
from devstack.stack.layout import Layout
from devstack.stack.parts import Part
from devstack.stack.ports import DEFAULT, any_free_port
from devstack.stack.stack_errors import PartFailed, StackError


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    made = Layout.from_environment({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / "a %s folder" / ".local")}, tmp_path)
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
    supervisord.start_supervisord(layout, {**os.environ, processes.STACK_VARIABLE: str(layout.local)})
    supervisor = supervisord.Supervisor(layout.supervisor_socket)
    for program in programs:
        supervisor.start(program.name)
    return supervisor


def test_wait_returns_when_all_parts_run_and_answer_and_says_so(layout: Layout) -> None:
    programs = (server("one"), server("two"))
    lines: list[str] = []
    supervisor = started(layout, *programs)
    health.wait(layout, supervisor, programs, timeout_s=60, log=lines.append)
    assert sorted(line.split()[0] for line in lines) == ["one", "two"]
    # An answer of another program on the port is not health.
    stopped = supervisord.PartState("BACKOFF", 0, supervisor.part_states()["one"].started_at)
    assert not health.is_healthy(programs[0], {"one": stopped})


def test_wait_fails_for_a_part_on_whose_port_another_program_answers(layout: Layout) -> None:
    other = server("other")
    late = dataclasses.replace(other, name="late", command=("sleep", "600"))
    supervisor = started(layout, other, late)
    health.wait(layout, supervisor, (other,), timeout_s=60, log=print)
    with pytest.raises(PartFailed, match="late is not healthy"):
        health.wait(layout, supervisor, (late,), timeout_s=supervisord.START_S + 1, log=print)


def test_wait_fails_with_the_log_of_a_part_that_does_not_start(layout: Layout) -> None:
    broken = Part("broken", (sys.executable, "-c", "raise SystemExit('no such folder')"), "http://127.0.0.1:1/")
    supervisor = started(layout, broken)
    with pytest.raises(PartFailed, match="no such folder") as failed:
        health.wait(layout, supervisor, (broken,), timeout_s=60, log=print)
    assert str(layout.log_of("broken")) in str(failed.value)


def test_a_part_that_supervisord_has_restarted_may_be_started(layout: Layout) -> None:
    supervisor = started(layout, server("one"))
    supervisor.start("one")
    with pytest.raises(xmlrpc.client.Fault, match="BAD_NAME"):
        supervisor.start("other")


def test_stop_leaves_no_process_behind_and_no_address_that_another_stack_may_get(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = started(layout, server("scheduler"))
    client_config.write(layout, DEFAULT)
    assert lifecycle._stop(layout, supervisor) >= 2
    assert processes.of_stack(layout.local) == []
    assert not supervisor.is_alive()
    monkeypatch.setenv("DEDUP_CLONE_LOCAL_DIR", str(layout.local))
    with pytest.raises(StackError, match="The local stack is down"):
        connect()


def test_a_running_stack_of_another_version_is_named_and_stopped(layout: Layout) -> None:
    started(layout, server("scheduler"))
    layout.ports_file.write_text(json.dumps(dataclasses.asdict(DEFAULT)))
    layout.started_file.touch()
    lines: list[str] = []
    assert not lifecycle.status(layout, lines.append)
    assert any(line.split()[:3] == ["database", "MISSING", "not"] for line in lines)
    with pytest.raises(StackError, match=r"another version, without \[database, "):
        lifecycle.up(layout, {}, lines.append)
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


def test_supervisor_without_socket_is_not_alive(tmp_path: Path) -> None:
    assert not supervisord.Supervisor(tmp_path / "none.sock").is_alive()


def test_supervisor_can_be_reached_after_a_failed_call(layout: Layout) -> None:
    layout.supervisor_socket.touch()
    supervisor = supervisord.Supervisor(layout.supervisor_socket)
    assert not supervisor.is_alive()
    layout.supervisor_socket.unlink()
    started(layout, server("one"))
    assert supervisor.is_alive()


def test_stop_leaves_nothing_in_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There the sockets are if the path of the stack's folder is long."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    layout = Layout.from_environment({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / ("deep" * 40))}, tmp_path)
    layout.make_folders()
    layout.supervisor_socket.touch()  # of a supervisord that was killed
    assert len(list(temporary.iterdir())) == 2
    lifecycle._stop(layout, supervisord.Supervisor(layout.supervisor_socket))
    assert list(temporary.iterdir()) == []


def test_long_checkout_path_gets_a_short_socket_path(tmp_path: Path) -> None:
    layout = Layout.from_environment({"DEDUP_CLONE_LOCAL_DIR": str(tmp_path / ("deep" * 40))}, tmp_path)
    assert len(str(layout.supervisor_socket)) <= 100
