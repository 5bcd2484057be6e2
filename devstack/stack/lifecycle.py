"""Starts and stops the local stack as a whole, and shows its status."""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from devstack.stack import (
    airflow_settings,
    client_config,
    health,
    migration,
    parts,
    ports,
    postgres,
    process_environment,
    processes,
    stores,
    supervisord,
)
from devstack.stack.layout import Layout
from devstack.stack.names_and_logins import AIRFLOW_PASSWORD, AIRFLOW_USER, PAGE
from devstack.stack.stack_errors import StackError

SERVERS_TIMEOUT_S = 60.0
AIRFLOW_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 5.0


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


def up(layout: Layout, environ: Mapping[str, str], log: health.Log) -> ports.Ports:
    """Start all parts that do not run, and return the stack's ports once all are healthy.

    If a start fails, all parts are stopped, also those that ran before. Raises StackError, and Unreachable if a server
    does not respond while it gets what feeds need. During another start or stop, it stops nothing.
    """
    with _exclusive(layout):
        started = time.monotonic()
        supervisor = supervisord.Supervisor(layout.supervisor_socket)
        was_up = layout.started_file.exists() and supervisor.is_alive()
        try:
            stack_ports = (
                _restart_stopped_parts(layout, supervisor, log) if was_up else _start(layout, environ, supervisor, log)
            )
        except BaseException:
            log("Stopping what was started …")
            _stop(layout, supervisor)
            raise
        seconds = time.monotonic() - started
        log(f"The stack is up after {seconds:.1f} s. Data and logs: {layout.local}")
        log(f"  Airflow: {stack_ports.airflow_url}   login: {AIRFLOW_USER} / {AIRFLOW_PASSWORD}")
        log(f"  The page Snapshots: {stack_ports.airflow_url}/{PAGE}")
        log(f"  Spark's history server: {stack_ports.spark_history_url}")
        return stack_ports


def _restart_stopped_parts(layout: Layout, supervisor: supervisord.Supervisor, log: health.Log) -> ports.Ports:
    """Start the stopped parts of a stack that is up, and wait until all parts are healthy."""
    saved = ports.read_saved(layout.ports_file)
    if saved is None:
        raise StackError(
            f"The ports of the running stack are unknown: [{layout.ports_file}] is gone, or of another version. "
            "Start it again."
        )
    log(f"The stack in {layout.local} runs already.")
    all_parts, states = parts.all_parts(layout, saved), supervisor.part_states()
    if missing := [part.name for part in all_parts if part.name not in states]:
        raise StackError(f"The running stack is of another version, without [{', '.join(missing)}]. Start it again.")
    for name, part_state in states.items():
        if part_state.state in {"STOPPED", "FATAL", "EXITED"}:
            supervisor.start(name)
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
    choice = ports.choose(layout.ports_file)
    for line in choice.moved:
        log(f"  {line}")
    stack_ports = choice.ports
    environment_of_parts = process_environment.build(
        layout, stack_ports, airflow_settings.load_or_make_keys(layout), environ
    )
    airflow_settings.write_files(layout)
    client_config.write(layout, stack_ports)
    all_parts = parts.all_parts(layout, stack_ports)
    layout.supervisor_conf.write_text(supervisord.render(layout, all_parts))

    postgres.prepare(layout, environment_of_parts)
    supervisord.start_supervisord(layout, environment_of_parts)
    database, *servers = (part for part in all_parts if not part.starts_after_migration)
    airflow_parts = tuple(part for part in all_parts if part.starts_after_migration)
    for part in (database, *servers):
        supervisor.start(part.name)
    health.wait(layout, supervisor, (database,), timeout_s=SERVERS_TIMEOUT_S, log=log)
    migration_started = time.monotonic()
    if migration.migrate_if_needed(layout, environment_of_parts):
        log(f"  {database.name:<14} migrated in {time.monotonic() - migration_started:4.1f} s")
    for part in airflow_parts:
        supervisor.start(part.name)
    health.wait(layout, supervisor, tuple(servers), timeout_s=SERVERS_TIMEOUT_S, log=log)
    stores.create_missing(stack_ports.gcs_url, stack_ports.bigquery_url)
    stores.prepare_procedures(stack_ports.gcs_url, stack_ports.bigquery_url, layout.spark_code)
    layout.started_file.touch()
    health.wait(layout, supervisor, airflow_parts, timeout_s=AIRFLOW_TIMEOUT_S, log=log)
    return stack_ports


def down(layout: Layout, log: health.Log) -> None:
    """Stop all processes of the stack, also running tasks and Spark jobs. Data stay.

    Raises StackError during another start or stop, and if a process does not end.
    """
    with _exclusive(layout):
        started = time.monotonic()
        count = _stop(layout, supervisord.Supervisor(layout.supervisor_socket))
        if count == 0:
            log(f"The stack in {layout.local} was not running.")
        else:
            log(f"Stopped {count} processes in {time.monotonic() - started:.1f} s. Data stay in {layout.local}")


def _stop(layout: Layout, supervisor: supervisord.Supervisor) -> int:
    """Stop all processes of the stack. Returns how many there were."""
    process_count = len(processes.of_stack(layout.local))
    layout.started_file.unlink(missing_ok=True)
    # Later another stack may use the same ports, and clients would take it for this one.
    layout.stack_env.unlink(missing_ok=True)
    if supervisor.is_alive():
        pid = supervisor.pid()
        states = supervisor.part_states()
        all_but_database = states.keys() - {parts.DATABASE}
        # Until the parts have been asked to stop, the scheduler is suspended, so that it starts no task again.
        with processes.running_tasks_killed(states[parts.SCHEDULER].pid):
            supervisor.ask_to_stop(all_but_database)
        supervisor.wait_until_stopped(all_but_database)
        # The database stops last, because Airflow's parts write to it while they stop.
        supervisor.ask_to_stop({parts.DATABASE})
        supervisor.wait_until_stopped({parts.DATABASE})
        supervisor.shutdown()
        processes.wait_for_end(pid, supervisord.STOP_S + STOP_TIMEOUT_S)
    processes.sweep(layout.local, STOP_TIMEOUT_S)
    layout.remove_sockets()
    return process_count


def status(layout: Layout, log: health.Log) -> bool:
    """Log the state of each part. Returns whether all of them are healthy."""
    supervisor = supervisord.Supervisor(layout.supervisor_socket)
    saved = ports.read_saved(layout.ports_file)
    if saved is None or not supervisor.is_alive():
        leftovers = processes.of_stack(layout.local)
        log(
            "The stack is down."
            if not leftovers
            else f"The stack is down, but {len(leftovers)} processes are left: run `down`."
        )
        return False
    states = supervisor.part_states()
    all_healthy = True
    for part in parts.all_parts(layout, saved):
        state = states.get(part.name)  # None if the stack was started by a version without this part
        healthy = health.is_healthy(part, states)
        all_healthy = all_healthy and healthy
        word = "healthy" if healthy else "not healthy"
        log(f"  {part.name:<14} {state.state if state else 'MISSING':<9} {word:<12} {part.address}".rstrip())
    log(f"  data and logs: {os.path.relpath(layout.local)}")
    return all_healthy
