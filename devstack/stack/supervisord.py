"""Configures and starts supervisord, which runs the parts of the stack, and provides a client for its API."""

import shlex
import subprocess
import sys
import xmlrpc.client
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor.xmlrpc import Faults, SupervisorTransport

from devstack.stack.layout import Layout, StackError
from devstack.stack.parts import DATABASE, Part

# In seconds. A part counts as started once it has run for START_S. A part that is asked to stop is killed after STOP_S.
START_S = 2
STOP_S = 8
GAVE_UP_STATES = frozenset({"FATAL", "UNKNOWN"})  # supervisord does not try again to start such a part
# supervisord stops the group with the highest priority first, and all parts of a group at once. The database has a
# group of its own and stops last, because Airflow's parts write to it while they stop.
GROUP = "parts"

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

[group:{group}]
programs = {members}
priority = 2
"""

_PROGRAM = """
[program:{name}]
command = {command}
environment = {environment}
priority = 1
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


def _escaped(text: object) -> str:
    """The text with each % doubled, because supervisord expands %(…)s in every value."""
    return str(text).replace("%", "%%")


def render(layout: Layout, parts: tuple[Part, ...]) -> str:
    """The text of supervisord.conf."""
    head = _HEAD.format(
        socket=_escaped(layout.supervisor_socket),
        checkout=_escaped(layout.checkout),
        logs=_escaped(layout.logs),
        run=_escaped(layout.run),
        group=GROUP,
        members=",".join(part.name for part in parts if part.name != DATABASE),
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
        log=_escaped(_escaped(layout.log_of(part.name))),
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

    def start(self, *names: str) -> None:
        """Start parts, except those that run or that supervisord restarts. Does not wait until they run."""
        for name in names:
            try:
                self._call("startProcess", _full_name(name), False)
            except xmlrpc.client.Fault as error:
                if error.faultCode != Faults.ALREADY_STARTED:
                    raise

    def stop(self, name: str) -> None:
        """Stop one part, and wait until it has ended."""
        self._call("stopProcess", _full_name(name), True)

    def shut_down(self) -> None:
        """Ask all parts to stop, and supervisord to end after them. Returns once all but the database are asked."""
        with suppress(xmlrpc.client.Fault):  # the stack of another version has no such group
            self._call("stopProcessGroup", GROUP, False)
        self._call("shutdown")


def _full_name(part: str) -> str:
    return part if part == DATABASE else f"{GROUP}:{part}"
