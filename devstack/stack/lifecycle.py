"""Starts and stops the local stack as a whole."""

import fcntl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata

import psutil  # type: ignore[import-untyped]  # it ships no types

from devstack.stack import (
    client_config,
    health,
    parts,
    ports,
    postgres,
    process_environment,
    processes,
    stores,
    supervisord,
)
from devstack.stack.layout import Layout, StackError
from devstack.stack.names_and_logins import AIRFLOW_PASSWORD, AIRFLOW_USER, PAGE

SERVERS_TIMEOUT_S = 60.0
AIRFLOW_TIMEOUT_S = 240.0
SWEEP_TIMEOUT_S = 5.0
# supervisord needs STOP_S to end the database, and before it all other parts.
STOP_TIMEOUT_S = 2 * supervisord.STOP_S + SWEEP_TIMEOUT_S


@contextmanager
def _exclusive(layout: Layout) -> Iterator[None]:
    """Allow one start or stop of the stack at a time; raise StackError for a second one.

    The lock ends with the process, also when the process crashes.
    """
    layout.run.mkdir(parents=True, exist_ok=True)
    with layout.lock_file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackError(
                f"Another `up` or `down` of the stack in [{layout.local}] is at work: wait for it, then try again."
            ) from error
        yield


def up(layout: Layout, environ: Mapping[str, str], log: health.Log) -> None:
    """Start all parts that do not run, and wait until all are healthy.

    If a start fails, all parts are stopped, also those that ran before. Raises StackError, and Unreachable if a server
    does not respond while it gets what feeds need. During another start or stop, it stops nothing.
    """
    with _exclusive(layout):
        started = time.monotonic()
        supervisor = supervisord.Supervisor(layout.supervisor_socket)
        try:
            if layout.started_file.exists() and supervisor.is_alive():
                stack_ports = _restart_stopped_parts(layout, supervisor, log)
            else:
                stack_ports = _start(layout, environ, supervisor, log)
        except BaseException:
            log("Stopping what was started …")
            _stop(layout, supervisor)
            raise
        airflow_url = ports.url(stack_ports.airflow)
        log(f"The stack is up after {time.monotonic() - started:.1f} s. Data and logs: {layout.local}")
        log(f"  Airflow: {airflow_url}   login: {AIRFLOW_USER} / {AIRFLOW_PASSWORD}")
        log(f"  The page Snapshots: {airflow_url}/{PAGE}")


def _restart_stopped_parts(layout: Layout, supervisor: supervisord.Supervisor, log: health.Log) -> ports.Ports:
    """Start the stopped parts of a stack that is up, and wait until all parts are healthy."""
    log(f"The stack in {layout.local} runs already.")
    saved, states = ports.read_saved(layout.ports_file), supervisor.part_states()
    all_parts = parts.all_parts(layout, saved) if saved else ()
    if saved is None or any(part.name not in states for part in all_parts):
        raise StackError("The running stack is of another version, or its ports are unknown. Start it again.")
    stopped = ("STOPPED", "FATAL", "EXITED")
    supervisor.start(*(part.name for part in all_parts if states[part.name].state in stopped))
    health.wait(layout, supervisor, all_parts, timeout_s=AIRFLOW_TIMEOUT_S, log=log)
    return saved


def _start(
    layout: Layout, environ: Mapping[str, str], supervisor: supervisord.Supervisor, log: health.Log
) -> ports.Ports:
    """Start all parts of a stack that is down. Airflow's parts start once the database has been migrated."""
    if leftover_count := _stop(layout, supervisor):
        log(f"  stopped [{leftover_count}] processes that an earlier run left behind")
    layout.make_folders()
    log("Starting the local stack: half a minute, the first time a minute …")
    stack_ports = ports.choose(layout.ports_file, log)
    environment = process_environment.build(layout, stack_ports, environ)
    process_environment.write_airflow_files(layout)
    client_config.write(layout, stack_ports)
    layout.supervisor_conf.write_text(supervisord.render(layout, parts.all_parts(layout, stack_ports)))
    postgres.prepare(layout, environment)
    supervisord.start_supervisord(layout, environment)

    database, servers = parts.database(layout), parts.servers(layout, stack_ports)
    airflow_parts = parts.airflow_parts(stack_ports)
    supervisor.start(database.name, *(part.name for part in servers))
    health.wait(layout, supervisor, (database,), timeout_s=SERVERS_TIMEOUT_S, log=log)
    _migrate_if_needed(layout, environment, log)
    supervisor.start(*(part.name for part in airflow_parts))
    health.wait(layout, supervisor, servers, timeout_s=SERVERS_TIMEOUT_S, log=log)
    gcs_url, bigquery_url = ports.url(stack_ports.gcs), ports.url(stack_ports.bigquery)
    stores.create_missing(gcs_url, bigquery_url)
    stores.prepare_procedures(gcs_url, bigquery_url, layout.spark_code)
    layout.started_file.touch()
    health.wait(layout, supervisor, airflow_parts, timeout_s=AIRFLOW_TIMEOUT_S, log=log)
    return stack_ports


def _migrate_if_needed(layout: Layout, environment: Mapping[str, str], log: health.Log) -> None:
    """Create or migrate Airflow's tables, if this version of Airflow has not done so before.

    Even a migration that changes nothing takes seconds, so it runs only once for each version. Raises StackError if
    Airflow reports an error.
    """
    stamp, version = layout.database / "migrated-to", metadata.version("apache-airflow")
    if stamp.exists() and stamp.read_text() == version:
        return
    started, log_file = time.monotonic(), layout.log_of("migrate")
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    with log_file.open("w") as output:
        done = subprocess.run(command, env=environment, cwd=layout.checkout, stdout=output, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise StackError(
            f"Airflow's database in [{layout.database}] cannot be migrated to [{version}]:\n"
            f"{health.end_of_log(log_file)}\n  To start over without its history: delete [{layout.database}]."
        )
    stamp.write_text(version)
    log(f"  {parts.DATABASE:<14} migrated in {time.monotonic() - started:4.1f} s")


def down(layout: Layout, log: health.Log) -> None:
    """Stop all processes of the stack, also running tasks and Spark jobs. Data stay.

    Raises StackError during another start or stop, and if a process does not end.
    """
    with _exclusive(layout):
        started = time.monotonic()
        count = _stop(layout, supervisord.Supervisor(layout.supervisor_socket))
        stopped = f"Stopped {count} processes in {time.monotonic() - started:.1f} s. Data stay in {layout.local}"
        log(stopped if count else f"The stack in {layout.local} was not running.")


def _stop(layout: Layout, supervisor: supervisord.Supervisor) -> int:
    """Stop all processes of the stack. Returns how many there were."""
    process_count = len(processes.of_stack(layout.local))
    layout.started_file.unlink(missing_ok=True)
    # Later another stack may use the same ports, and clients would take it for this one.
    layout.stack_env.unlink(missing_ok=True)
    if supervisor.is_alive():
        daemon = psutil.Process(supervisor.pid())
        # Until the parts have been asked to stop, the scheduler is suspended, so that it starts no task again.
        with processes.running_tasks_killed(supervisor.part_states()[parts.SCHEDULER].pid):
            supervisor.shut_down()
        with suppress(psutil.TimeoutExpired):
            daemon.wait(STOP_TIMEOUT_S)
    processes.sweep(layout.local, SWEEP_TIMEOUT_S)
    layout.remove_sockets()
    return process_count
