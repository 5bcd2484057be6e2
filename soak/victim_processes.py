"""Finds the process to kill in a running stack, and kills it with SIGKILL.

A held request belongs to the process at the other end of its connection. The ancestors of that process tell what it is:
a task's process is a child of an executor's worker, which is a child of the scheduler.
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
MAIN_PARTS = ("scheduler", "triggerer", "dag_processor", "api_server", "bigquery", "fake_gcs", "database")


def sender_of(stack: ProxiedStack, client_port: int, proxy_port: int) -> psutil.Process:
    """The process at the other end of a connection to a holding proxy."""
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
    return [process, *process.parents()]


def main_process(stack: ProxiedStack, part: str) -> psutil.Process:
    """The process that supervisord started for a part of the stack."""
    part_state = stack.parts()[part]
    if part_state.pid == 0:
        raise HarnessError(f"Part [{part}] does not run: {part_state.state}.")
    return psutil.Process(part_state.pid)


def executor_worker(stack: ProxiedStack, client: psutil.Process) -> psutil.Process:
    """The executor's worker among the ancestors of `client`: the parent of the task's own process."""
    scheduler = stack.parts()["scheduler"].pid
    for process, parent in pairwise(with_ancestors(client)):
        if parent.pid == scheduler:
            return process
    raise HarnessError(f"Process [{describe(client)}] is no descendant of the scheduler.")


def task_process(stack: ProxiedStack, client: psutil.Process) -> psutil.Process:
    """The process that runs the task's code."""
    worker = executor_worker(stack, client)
    return next(process for process in with_ancestors(client) if process.ppid() == worker.pid)


def java_ancestor(client: psutil.Process) -> psutil.Process:
    for process in with_ancestors(client):
        if "java" in process.name():
            return process
    raise HarnessError(f"No JVM among the ancestors of [{describe(client)}].")


def describe(process: psutil.Process) -> str:
    """For the report: the process id and the command line without folders, shortened."""
    try:
        words = process.cmdline()
    except psutil.Error:
        words = []
    text = " ".join(word.rsplit("/", 1)[-1] for word in words)
    return f"{process.pid} {text[:70]}"


def kill(process: psutil.Process) -> None:
    """Sends SIGKILL and waits until the process has ended (a zombie has ended, too)."""
    process.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while _runs(process):
        if time.monotonic() > deadline:
            raise HarnessError(f"[{describe(process)}] survived SIGKILL for {KILL_TIMEOUT_S:.0f} s.")
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def end_orphans(stack: ProxiedStack, is_orphan: Callable[[psutil.Process], bool]) -> int:
    """Kills the processes of the stack for which `is_orphan` is true, and returns how many there were."""
    orphans = [process for process in of_stack(stack.layout.local) if is_orphan(process)]
    for process in orphans:
        try:
            kill(process)
        except psutil.NoSuchProcess:
            continue
    return len(orphans)
