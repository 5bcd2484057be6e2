"""Finds and ends all processes of a local stack.

Process tree and process groups do not lead to all of them, because tasks run in groups of their own and Spark outlives
a killed task. Instead, every process of a stack inherits an environment variable, named by STACK_VARIABLE,
whose value is the stack's folder.
"""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it ships no types

from devstack.stack.layout import StackError

STACK_VARIABLE = "DEDUP_CLONE_STACK"
ATTEMPTS = 3  # to end one process
_GONE = (psutil.NoSuchProcess, psutil.AccessDenied)


def of_stack(local: Path) -> list[psutil.Process]:
    """All running processes of the stack in the folder `local`, with their child processes.

    Without this process and its ancestors, which must not be ended, even if a shell exports STACK_VARIABLE.
    """
    me = psutil.Process()
    own_ids = {me.pid, *(parent.pid for parent in me.parents())}
    found: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if process.pid not in own_ids and _is_of_stack(process, str(local)):
            found.update((one.pid, one) for one in (process, *_children(process)) if one.pid not in own_ids)
    return list(found.values())


def _is_of_stack(process: psutil.Process, local: str) -> bool:
    with suppress(psutil.NoSuchProcess, OSError):
        try:
            return bool(process.environ().get(STACK_VARIABLE) == local)
        except psutil.AccessDenied:
            # In a container not even root can always read the environment of the stack's PostgreSQL.
            return os.geteuid() == 0 and process.name() == "postgres" and _is_below(process, local)
    return False


def _is_below(process: psutil.Process, local: str) -> bool:
    """Whether an argument of the process is a path below the folder `local`."""
    with suppress(*_GONE):
        return any(word.startswith(f"{local}{os.sep}") for word in process.cmdline())
    return False


def _children(process: psutil.Process) -> list[psutil.Process]:
    with suppress(*_GONE):
        return list(process.children(recursive=True))
    return []


def _signal(processes: Iterable[psutil.Process], send: Callable[[psutil.Process], None]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            send(process)


@contextmanager
def running_tasks_killed(scheduler_pid: int) -> Iterator[None]:
    """Suspend Airflow's scheduler until the end of the `with` block, and kill the tasks that it runs.

    A task that is asked to stop reports a failure, which uses up one of its retries. A task that is killed without a
    report is started again by the next scheduler. So Airflow's process that supervises the task is killed first, before
    it can report anything. The scheduler is suspended, so that it cannot start the task again now.
    `scheduler_pid`: 0 if no scheduler runs; then nothing is done.
    """
    scheduler: list[psutil.Process] = []
    if scheduler_pid:
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(scheduler_pid)
            process.suspend()
            scheduler.append(process)
    try:
        task_supervisors = [child for one in scheduler for child in one.children()]
        task_processes = [task for supervisor in task_supervisors for task in _children(supervisor)]
        _signal([*task_supervisors, *task_processes], psutil.Process.kill)
        yield
    finally:
        _signal(scheduler, psutil.Process.resume)


def sweep(local: Path, timeout_s: float) -> int:
    """End processes of the stack until there are none, also those that start meanwhile. Returns how many were found.

    They get SIGTERM, and those that still run after `timeout_s` get SIGKILL. Raises StackError for a process that
    outlives all attempts: SIGKILL does not end one that waits in the kernel.
    """
    attempts: Counter[int] = Counter()
    while processes := of_stack(local):
        found = [process.pid for process in processes]
        if stuck := [pid for pid in found if attempts[pid] == ATTEMPTS]:
            raise StackError(
                f"Processes [{', '.join(map(str, stuck))}] of the stack in {local} still run after {ATTEMPTS} times "
                "SIGKILL: see what they wait for (ps -o pid,stat,wchan,args), end them, and try again."
            )
        attempts.update(found)
        _signal(processes, psutil.Process.terminate)
        _, alive = psutil.wait_procs(processes, timeout=timeout_s)
        _signal(alive, psutil.Process.kill)
        psutil.wait_procs(alive, timeout=timeout_s)
    return len(attempts)
