"""Start, stop and state of the stack as a whole."""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from devstack.stack import (
    airflow_settings,
    client_tools,
    environment,
    health,
    migration,
    ports,
    postgres,
    processes,
    programs,
    resources,
    secret_keys,
    supervision,
)
from devstack.stack.errors import StackBusy, StackError
from devstack.stack.layout import Layout
from devstack.stack.names import AIRFLOW_PASSWORD, AIRFLOW_USER

STORES_TIMEOUT_S = 60.0
AIRFLOW_TIMEOUT_S = 240.0
STOP_PATIENCE_S = 5.0


@contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One start or stop at a time. The lock goes with the process, so a crash leaves none behind."""
    layout.run.mkdir(parents=True, exist_ok=True)
    with layout.lock_file.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StackBusy(
                f"Another `up` or `down` of the stack in [{layout.local}] is at work: wait for it, then try again."
            ) from error
        yield


def up(layout: Layout, environ: Mapping[str, str], say: health.Say) -> ports.Ports:
    """Starts what does not run and returns when all is healthy. On any failure nothing is left running."""
    with _alone(layout):
        started = time.monotonic()
        supervisor = supervision.Supervisor(layout.supervisor_socket)
        was_up = layout.started_mark.exists() and supervisor.is_alive()
        try:
            chosen = _join(layout, supervisor, say) if was_up else _start(layout, environ, supervisor, say)
        except BaseException:
            say("Stopping what was started …")
            _stop(layout, supervisor)
            raise
        seconds = time.monotonic() - started
        say(f"The stack {'is' if was_up else 'was'} up: {seconds:.1f} s. Data and logs: {layout.local}")
        say(f"  Airflow: {chosen.airflow_url}   login: {AIRFLOW_USER} / {AIRFLOW_PASSWORD}")
        return chosen


def _join(layout: Layout, supervisor: supervision.Supervisor, say: health.Say) -> ports.Ports:
    """The stack is up already: starts again what has given up, and waits until all is healthy."""
    chosen = ports.read_kept(layout.ports_file)
    if chosen is None:
        raise StackError(f"The ports of the running stack are unknown: [{layout.ports_file}] is gone. Start it again.")
    say(f"The stack in {layout.local} runs already.")
    parts = programs.all_programs(layout, chosen)
    for name, part in supervisor.parts().items():
        if part.state in {"STOPPED", "FATAL", "EXITED"}:
            supervisor.start(name)
    health.wait(layout, supervisor, parts, timeout_s=AIRFLOW_TIMEOUT_S, say=say)
    return chosen


def _start(
    layout: Layout, environ: Mapping[str, str], supervisor: supervision.Supervisor, say: health.Say
) -> ports.Ports:
    if left := _stop(layout, supervisor):
        say(f"  stopped [{left}] processes that an earlier run left behind")
    layout.make_folders()
    choice = ports.choose(layout.ports_file)
    for line in choice.moved:
        say(f"  {line}")
    chosen = choice.ports
    environment_of_parts = environment.build(layout, chosen, secret_keys.load_or_make(layout), environ)
    airflow_settings.write_files(layout)
    client_tools.write(layout, chosen)
    parts = programs.all_programs(layout, chosen)
    layout.supervisor_conf.write_text(supervision.render(layout, parts))

    postgres.prepare(layout, environment_of_parts)
    supervision.start_supervisord(layout, environment_of_parts)
    database, *stores = (part for part in parts if not part.is_airflow)
    airflow_parts = tuple(part for part in parts if part.is_airflow)
    for part in (database, *stores):
        supervisor.start(part.name)
    health.wait(layout, supervisor, (database,), timeout_s=STORES_TIMEOUT_S, say=say)
    migrating = time.monotonic()
    if migration.migrate_if_needed(layout, environment_of_parts):
        say(f"  {database.name:<14} migrated in {time.monotonic() - migrating:4.1f} s")
    for part in airflow_parts:
        supervisor.start(part.name)
    health.wait(layout, supervisor, tuple(stores), timeout_s=STORES_TIMEOUT_S, say=say)
    resources.make_missing(chosen.gcs_url, chosen.bigquery_url)
    layout.started_mark.touch()
    health.wait(layout, supervisor, airflow_parts, timeout_s=AIRFLOW_TIMEOUT_S, say=say)
    return chosen


def down(layout: Layout, say: health.Say) -> None:
    """Stops everything of the stack, running tasks and Spark included. Data stay."""
    with _alone(layout):
        started = time.monotonic()
        count = _stop(layout, supervision.Supervisor(layout.supervisor_socket))
        if count == 0:
            say(f"The stack in {layout.local} was not running.")
        else:
            say(f"Stopped {count} processes in {time.monotonic() - started:.1f} s. Data stay in {layout.local}")


def _stop(layout: Layout, supervisor: supervision.Supervisor) -> int:
    """Ends all processes of the stack and returns how many there were."""
    count = len(processes.of_stack(layout.local))
    layout.started_mark.unlink(missing_ok=True)
    if supervisor.is_alive():
        pid = supervisor.pid()
        parts = supervisor.parts()
        others = parts.keys() - {programs.DATABASE}
        with processes.tasks_cut_off(parts[programs.SCHEDULER].pid):
            supervisor.ask_to_stop(others)
        supervisor.wait_until_stopped(others)
        # Airflow's parts write their last there.
        supervisor.ask_to_stop({programs.DATABASE})
        supervisor.wait_until_stopped({programs.DATABASE})
        supervisor.shutdown()
        processes.wait_for_end(pid, supervision.STOP_S + STOP_PATIENCE_S)
    processes.sweep(layout.local, STOP_PATIENCE_S)
    return count


def status(layout: Layout, say: health.Say) -> bool:
    """Says the state of each part. True when all of them are healthy."""
    supervisor = supervision.Supervisor(layout.supervisor_socket)
    kept = ports.read_kept(layout.ports_file)
    if kept is None or not supervisor.is_alive():
        left = processes.of_stack(layout.local)
        say("The stack is down." if not left else f"The stack is down, but {len(left)} processes are left: run `down`.")
        return False
    parts = supervisor.parts()
    all_healthy = True
    for program in programs.all_programs(layout, kept):
        healthy = health.is_healthy(program, parts[program.name])
        all_healthy = all_healthy and healthy
        word = "healthy" if healthy else "not healthy"
        say(f"  {program.name:<14} {parts[program.name].state:<9} {word:<12} {program.address}".rstrip())
    say(f"  data and logs: {os.path.relpath(layout.local)}")
    return all_healthy
