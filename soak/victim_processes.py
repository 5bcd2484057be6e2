"""Finds the process to kill in a running stack, and kills it with SIGKILL.

The proxy of the soak (testkit/holding_proxy.py) holds a request back. The process that sent it is found by its
connection to the proxy. The processes of the task, the worker and the JVM are that process or ancestors of it: the
process that runs a task's code is a child of a worker of Airflow's LocalExecutor, and the worker is a child of the
scheduler. The main process of a part of the stack is known to supervisord.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from itertools import pairwise

import psutil  # type: ignore[import-untyped]  # it ships no types

from devstack.stack.processes import of_stack
from testkit.errors import HarnessError
from testkit.proxied_stack import ProxiedStack

KILL_TIMEOUT_S = 10.0


def find_sender(stack: ProxiedStack, client_port: int, proxy_port: int) -> psutil.Process:
    """The process that sent a held request, by its connection from `client_port` to the proxy on `proxy_port`.

    Raises HarnessError if the stack has no such process.
    """
    for process in of_stack(stack.layout.local):
        try:
            connections = process.net_connections(kind="tcp")
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        for connection in connections:
            if connection.raddr and connection.laddr.port == client_port and connection.raddr.port == proxy_port:
                return process
    raise HarnessError(f"No process of the stack holds the connection from port [{client_port}].")


def with_ancestors(process: psutil.Process) -> list[psutil.Process]:
    """The process and all its ancestors, the nearest first."""
    return [process, *process.parents()]


def find_main_process(stack: ProxiedStack, part: str) -> psutil.Process:
    """The process that supervisord started for a part of the stack. Raises HarnessError if the part does not run."""
    part_state = stack.part_states()[part]
    if part_state.pid == 0:
        raise HarnessError(f"Part [{part}] does not run: {part_state.state}.")
    return psutil.Process(part_state.pid)


def find_executor_worker(stack: ProxiedStack, sender: psutil.Process) -> psutil.Process:
    """The worker of LocalExecutor that is `sender` or one of its ancestors. Raises HarnessError if there is none."""
    scheduler = stack.part_states()["scheduler"].pid
    for process, parent in pairwise(with_ancestors(sender)):
        if parent.pid == scheduler:
            return process
    raise HarnessError(f"Process [{describe(sender)}] is no descendant of the scheduler.")


def find_task_process(stack: ProxiedStack, sender: psutil.Process) -> psutil.Process:
    """The process that runs the code of an Airflow task: `sender` or one of its ancestors.

    Raises HarnessError if there is none.
    """
    worker = find_executor_worker(stack, sender)
    for process, parent in pairwise(with_ancestors(sender)):
        if parent.pid == worker.pid:
            return process
    raise HarnessError(f"Process [{describe(sender)}] is a worker of LocalExecutor, expected one of its descendants.")


def find_jvm(sender: psutil.Process) -> psutil.Process:
    """`sender` or its nearest ancestor that is a JVM. Raises HarnessError if there is none."""
    for process in with_ancestors(sender):
        if "java" in process.name():
            return process
    raise HarnessError(f"Neither process [{describe(sender)}] nor an ancestor is a JVM.")


def describe(process: psutil.Process) -> str:
    """A text for the report: the process id, and the beginning of the command line without folders."""
    try:
        words = process.cmdline()
    except psutil.Error:
        words = []
    text = " ".join(word.rsplit("/", 1)[-1] for word in words)
    return f"{process.pid} {text[:70]}"


def kill(process: psutil.Process) -> None:
    """Send SIGKILL and wait until the process has ended. A zombie counts as ended.

    Raises HarnessError if the process still runs after KILL_TIMEOUT_S, psutil.NoSuchProcess if it had ended before.
    """
    process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while _is_running(process):
        if time.monotonic() > deadline:
            raise HarnessError(f"[{describe(process)}] survived SIGKILL for {KILL_TIMEOUT_S:.0f} s.")
        time.sleep(0.01)


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def kill_matching(stack: ProxiedStack, matches: Callable[[psutil.Process], bool]) -> int:
    """Kill the processes of the stack for which `matches` returns true. Returns their number."""
    matching = [process for process in of_stack(stack.layout.local) if matches(process)]
    for process in matching:
        try:
            kill(process)
        except psutil.NoSuchProcess:
            continue
    return len(matching)
