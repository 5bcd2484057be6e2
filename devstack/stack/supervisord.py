"""Configures and starts supervisord, which runs the parts of the stack, and provides a client for its API."""

import shlex
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import Faults, SupervisorTransport

from devstack.stack.layout import Layout
from devstack.stack.parts import Part
from devstack.stack.stack_errors import StackError

# In seconds. A part counts as started once it has run for START_S. A part that is asked to stop is killed after STOP_S.
# A killed part ends within KILL_S.
START_S = 2
STOP_S = 8
KILL_S = 2
POLL_INTERVAL_S = 0.1
GAVE_UP_STATES = frozenset({"FATAL", "UNKNOWN"})  # supervisord does not try again to start such a part

_HEAD = """\
[unix_http_server]
file = {socket}
chmod = 0700

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[supervisord]
directory = {checkout}
logfile = {logs}/supervisord.log
logfile_maxbytes = 1MB
logfile_backups = 1
childlogdir = {logs}
pidfile = {run}/supervisord.pid
minfds = 1024
"""

_PROGRAM = """
[program:{name}]
command = {command}
environment = {environment}
autostart = false
autorestart = true
stopsignal = {stop_signal}
startsecs = {start_s}
startretries = 2
stopasgroup = {as_group}
killasgroup = true
stopwaitsecs = {stop_s}
redirect_stderr = true
stdout_logfile = {log}
stdout_logfile_maxbytes = 10MB
stdout_logfile_backups = 1
"""


def _escaped(text: str) -> str:
    """The text with each % doubled, because supervisord expands %(…)s in every value."""
    return text.replace("%", "%%")


def render(layout: Layout, parts: tuple[Part, ...]) -> str:
    """The text of supervisord.conf."""
    head = _HEAD.format(
        socket=_escaped(str(layout.supervisor_socket)),
        checkout=_escaped(str(layout.checkout)),
        logs=_escaped(str(layout.logs)),
        run=_escaped(str(layout.run)),
    )
    return head + "".join(_render_part(layout, part) for part in parts)


def _render_part(layout: Layout, part: Part) -> str:
    return _PROGRAM.format(
        name=part.name,
        command=_escaped(shlex.join(part.command)),
        environment=",".join(f'{name}="{_escaped(value)}"' for name, value in part.environment.items()),
        start_s=START_S,
        stop_s=STOP_S,
        as_group="true" if part.stop_as_group else "false",
        stop_signal=part.stop_signal,
        # supervisord expands the names of log files twice.
        log=_escaped(_escaped(str(layout.log_of(part.name)))),
    )


def start_supervisord(layout: Layout, environment: Mapping[str, str]) -> None:
    """Start supervisord in the background, in a session of its own, so that Ctrl-C does not reach it.

    Raises StackError if it does not start.
    """
    command = [sys.executable, "-m", "supervisor.supervisord", "-c", str(layout.supervisor_conf)]
    done = subprocess.run(command, env=dict(environment), cwd=layout.checkout, capture_output=True, text=True)
    if done.returncode != 0:
        raise StackError(
            f"supervisord did not start with [{layout.supervisor_conf}]: {(done.stderr or done.stdout).strip()}"
        )


@dataclass(frozen=True)
class PartState:
    """What supervisord says of a part. `state`: supervisord's word, such as RUNNING. `pid`: 0 if no process runs."""

    state: str
    pid: int
    started_at: datetime


class Supervisor:
    """A client of the supervisord of one stack."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def _call(self, method: str, *arguments: Any) -> Any:
        # A new connection for each call, because the transport never drops a broken one.
        transport = SupervisorTransport("", "", serverurl=f"unix://{self._socket}")
        with xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport) as server:
            return getattr(server.supervisor, method)(*arguments)

    def is_alive(self) -> bool:
        if not self._socket.exists():
            return False
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except (OSError, xmlrpc.client.Error):
            return False

    def pid(self) -> int:
        return int(self._call("getPID"))

    def part_states(self) -> dict[str, PartState]:
        """The state of each part, by the part's name."""
        return {
            info["name"]: PartState(info["statename"], info["pid"], datetime.fromtimestamp(info["start"], UTC))
            for info in self._call("getAllProcessInfo")
        }

    def start(self, name: str) -> None:
        """Start one part, unless it runs or supervisord restarts it. Does not wait until it runs."""
        try:
            self._call("startProcess", name, False)
        except xmlrpc.client.Fault as error:
            if error.faultCode != Faults.ALREADY_STARTED:
                raise

    def stop(self, name: str) -> None:
        """Stop one part, and wait until it has ended."""
        self._call("stopProcess", name, True)

    def ask_to_stop(self, names: Collection[str]) -> None:
        """Ask all these parts to stop. Does not wait for them."""
        for name in names:
            with suppress(xmlrpc.client.Fault):  # the part does not run
                self._call("stopProcess", name, False)

    def wait_until_stopped(self, names: Collection[str]) -> None:
        """Wait until none of these parts runs, but not longer than supervisord takes to stop or kill a part."""
        deadline = time.monotonic() + STOP_S + KILL_S
        while time.monotonic() < deadline:
            if not any(state.pid for name, state in self.part_states().items() if name in names):
                return
            time.sleep(POLL_INTERVAL_S)

    def shutdown(self) -> None:
        self._call("shutdown")
