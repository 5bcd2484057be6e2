"""Finds the process to kill in a running stack, and kills it with SIGKILL.

A proxy (testkit/holding_proxy.py) holds a request back. The process that sent it is found by its connection to the
proxy. The process that runs a task's code is that process or an ancestor of it. It is a child of a worker of Airflow's
LocalExecutor, and the worker is a child of the scheduler. supervisord knows the main process of a part of the stack.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import psutil

from devstack.stack.processes import of_stack
from testkit.holding_proxy import Hold
from testkit.stack import Stack
from testkit.waiting import wait_for

KILL_TIMEOUT_S = 10.0


def find_sender(stack: Stack, hold: Hold) -> psutil.Process:
    """The process that sent the held request."""
    proxy_ports = {int(proxy.url.rpartition(":")[2]) for proxy in stack.proxies.values()}
    for process in of_stack(stack.layout.local):
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            for connection in process.net_connections(kind="tcp"):
                is_to_proxy = connection.raddr and connection.raddr.port in proxy_ports
                if is_to_proxy and connection.laddr.port == hold.client_port:
                    return process
    raise LookupError(f"no process of the stack holds the connection from port [{hold.client_port}]")


def find_executor_worker(stack: Stack, sender: psutil.Process) -> psutil.Process:
    return _child_of(stack.part_states()["scheduler"].pid, sender)


def find_task(stack: Stack, sender: psutil.Process) -> psutil.Process:
    return _child_of(find_executor_worker(stack, sender).pid, sender)


def _child_of(pid: int, descendant: psutil.Process) -> psutil.Process:
    for process, parent in pairwise([descendant, *descendant.parents()]):
        if parent.pid == pid:
            return process
    raise LookupError(f"[{descendant}] is no descendant of process [{pid}]")


def find_jvm(sender: psutil.Process) -> psutil.Process:
    return next(process for process in [sender, *sender.parents()] if "java" in process.name())


def find_part(stack: Stack, part: str) -> psutil.Process:
    """The process that supervisord started for a part of the stack."""
    return psutil.Process(stack.part_states()[part].pid)


def kill(process: psutil.Process) -> None:
    """Send SIGKILL and wait until the process has ended. A zombie counts as ended, and others wait for it."""
    process.kill()
    wait_for(lambda: _has_ended(process), f"[{process}] has ended", KILL_TIMEOUT_S, poll_interval_s=0.01)


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def kill_orphaned_workers(stack: Stack) -> None:
    """Kill the workers of LocalExecutor that outlived a killed scheduler. They would wait for tasks for ever."""
    scheduler = stack.part_states()["scheduler"].pid
    for process in of_stack(stack.layout.local):
        with suppress(psutil.NoSuchProcess):
            if "LocalExecutor" in " ".join(process.cmdline()) and process.ppid() != scheduler:
                kill(process)
