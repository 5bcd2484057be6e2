"""Follows landed snapshots from their landing to the end of their publish runs."""

import time
from collections.abc import Iterator, Sequence

from dedup_clone.state.ledger import Ledger, LedgerRecord, Outcome
from dedup_clone.state.store import ObjectStore
from devstack.connection import Connection
from devstack.demo.airflow_api import AirflowApi, DemoError, Task
from devstack.demo.output import Terminal
from devstack.producer.landing import Landed

DAGS_TIMEOUT_S = 180.0
SENSOR_TIMEOUT_S = 120.0
RUN_TIMEOUT_S = 600.0
POLL_INTERVAL_S = 0.5
LOG_LINES_SHOWN = 12
_ACTIVE = ("running", "deferred", "up_for_retry", "up_for_reschedule", "queued", "scheduled")
_ERROR_WORDS = ("error", "critical", "exception", "traceback", "failed")


def wait_for_dags(api: AirflowApi, feeds: Sequence[str], terminal: Terminal) -> None:
    """Wait until Airflow has read the watch and publish DAGs of the feeds.

    Raises DemoError if one of them is paused, or is still missing after DAGS_TIMEOUT_S.
    """
    missing = [f"{feed}_{dag}" for feed in feeds for dag in ("watch", "publish")]
    deadline = time.monotonic() + DAGS_TIMEOUT_S
    while True:
        paused = {dag: api.is_paused(dag) for dag in missing}
        if stopped := [dag for dag, is_paused in paused.items() if is_paused]:
            raise DemoError(f"DAGs [{', '.join(stopped)}] are paused: unpause them in Airflow, then try again.")
        missing = [dag for dag, is_paused in paused.items() if is_paused is None]
        if not missing:
            return
        if time.monotonic() > deadline:
            errors = "\n".join(f"    {error}" for error in api.import_errors()) or "    (no import errors)"
            raise DemoError(f"Airflow does not know the DAGs [{', '.join(missing)}]. Its import errors:\n{errors}")
        terminal.progress(f"Airflow reads the DAGs: {len(missing)} to go")
        time.sleep(POLL_INTERVAL_S)


def follow(api: AirflowApi, all_landed: Sequence[Landed], terminal: Terminal) -> Iterator[Landed]:
    """Yield each delivery once it is published. Raises DemoError as soon as a publish fails or takes too long."""
    waiting, started = list(all_landed), time.monotonic()
    while waiting:
        texts = []
        for landed in tuple(waiting):
            doing = _what_is_done(api, landed, time.monotonic() - started)
            if doing is None:
                waiting.remove(landed)
                yield landed
            else:
                texts.append(f"{_name(landed)} {doing}")
        if texts:
            terminal.progress(" | ".join(texts))
            time.sleep(POLL_INTERVAL_S)


def _what_is_done(api: AirflowApi, landed: Landed, seconds: float) -> str | None:
    """What the publish is doing, as text; None once it has succeeded. Raises DemoError if it has failed."""
    dag, watch = f"{landed.feed}_publish", f"{landed.feed}_watch"
    state = api.run_state(dag, landed.run_id)
    if state == "success":
        return None
    if state is None:
        if seconds > SENSOR_TIMEOUT_S:
            raise DemoError(
                f"{_name(landed)} no run [{landed.run_id}] of [{dag}] within [{SENSOR_TIMEOUT_S:.0f}] s after the "
                f"marker. The sensor is in [{watch}] (paused: {api.is_paused(watch)}): look at its last run."
            )
        return "waits for the sensor"
    tasks = api.tasks(dag, landed.run_id)
    if state == "failed":
        raise DemoError(_failure(api, landed, dag, tasks))
    if seconds > RUN_TIMEOUT_S:
        raise DemoError(
            f"{_name(landed)} is not published after {RUN_TIMEOUT_S:.0f} s: {_active_tasks(tasks)}. "
            f"Look at {api.run_page(dag, landed.run_id)}"
        )
    return _active_tasks(tasks)


def _name(landed: Landed) -> str:
    return f"{landed.feed} {landed.delivery.snapshot_id}:"


def _active_tasks(tasks: list[Task]) -> str:
    """The tasks of a run that are in the same active state, and this state, as text. Earlier states in _ACTIVE win."""
    for state in _ACTIVE:
        if task_ids := [task.task_id for task in tasks if task.state == state]:
            return f"{', '.join(task_ids)} ({state.replace('_', ' ')})"
    return "between two tasks"


def _failure(api: AirflowApi, landed: Landed, dag: str, tasks: list[Task]) -> str:
    """The failed task, and the last lines of its log that contain a word for an error, or else its last lines."""
    task = next((task for task in tasks if task.state == "failed"), None)
    page = api.run_page(dag, landed.run_id, task)
    if task is None:
        return f"{_name(landed)} run [{landed.run_id}] failed without a failed task. Look at {page}"
    lines = api.log_lines(dag, landed.run_id, task)
    errors = [line for line in lines if any(word in line.lower() for word in _ERROR_WORDS)]
    shown = "\n".join(f"    {line[:300]}" for line in (errors or lines)[-LOG_LINES_SHOWN:]) or "    (the log is empty)"
    return (
        f"{_name(landed)} task [{task.task_id}] failed on try [{task.try_number}]. From its log:\n{shown}"
        f"\n  The whole log: {page}"
    )


def read_record(connection: Connection, feed: str, run_id: str) -> LedgerRecord:
    """The ledger record of a run that has published. Raises DemoError if the ledger has none."""
    ledger = Ledger(ObjectStore(connection.storage_client(), connection.state_bucket), feed)
    for record in reversed(ledger.recent(0)):
        if record.outcome is Outcome.PUBLISHED and record.run_id == run_id:
            return record
    raise DemoError(
        f"Run [{run_id}] of [{feed}_publish] succeeded, but gs://{connection.state_bucket}/{feed}/ledger/ has no "
        f"record of it with outcome [{Outcome.PUBLISHED}]: look at the run's last tasks."
    )
