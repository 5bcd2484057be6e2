"""Names and finds a delivery's publish runs, and decides when the watch DAG repeats one that did not publish it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING

from airflow.sdk import DagRunState
from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.feed_state import FailedRun
from dedup_clone.orchestration.setup import find_in_airflow
from dedup_clone.publish.attempts import failed_checks
from dedup_clone.publish.held_deliveries import find_stopped_before_dedup
from dedup_clone.publish.services import Services
from dedup_clone.state.ledger import LAST_ATTEMPTS

if TYPE_CHECKING:
    from airflow.sdk.execution_time.comms import DagRunResult

AUTOMATIC = "publish__"  # how the ids of runs begin that the watch DAG starts
# After this many runs that did not publish their delivery, the watchdog reports the delivery. A further run is then
# started only if the last one failed before it read rows, because only such runs are cheap.
RUNS_BEFORE_REPORT = 4
MAX_RUNS = RUNS_BEFORE_REPORT + 24  # the 24: one run an hour for a day, because an outage can last long
REPEAT_AFTER = timedelta(minutes=10)  # from a failure to the first repeat; doubles for each further repeat
LONGEST_PAUSE = timedelta(hours=1)  # between a failure and the repeat
FAILED_CHECK = "a check before the swap failed"
PARTITION_QUOTA = "partition_quota"  # the check that passes once BigQuery has refilled its quota
# Compared with `==`: the text of Airflow's enum is "DagRunState.FAILED", not "failed".
ENDED = (DagRunState.FAILED, DagRunState.SUCCESS)


def publish_run_id(delivery: Delivery, number: int = 1) -> str:
    """The id of the delivery's `number`-th run. It is not random, so that no run is started twice."""
    first = f"{AUTOMATIC}{delivery.snapshot_id}__{delivery.marker_generation}"
    return first if number == 1 else f"{first}__{number}"


def is_automatic_run(run_id: str, delivery: Delivery) -> bool:
    """Whether the watch DAG started the run, and not a person."""
    first = publish_run_id(delivery)
    return run_id == first or run_id.startswith(f"{first}__")


def has_run(dag_id: str, delivery: Delivery) -> bool:
    """Whether Airflow knows a run of the delivery."""
    return _count_runs(dag_id, _run_ids(delivery)) > 0


def find_failed_publish(services: Services, dag_id: str, waiting: Sequence[Delivery]) -> FailedRun | None:
    """The last run of the newest waiting delivery, if that run ended. None while a run of this delivery is active.

    One run publishes all waiting deliveries, so only the runs of the newest one are examined. The last run may even
    have succeeded: after a recovery of lost records, or of a deleted target, the deliveries that it published wait
    again.

    A run that a check ended is not repeated, because the check would fail again, after the same work. But one that a
    check ended before dedup is: nothing was read, and once the cause is corrected the repeat publishes. One that only
    PARTITION_QUOTA ended is, too, after LONGEST_PAUSE each time, because every repeat needs some of the quota. A run
    whose other deliveries are held now is repeated at once, with the newest alone. From number RUNS_BEFORE_REPORT on, a
    run is repeated only if it read no rows, as during an outage of storage or BigQuery. While such a repeat is active,
    the run that it repeats is returned all the same, so that the alert about it stays open.
    """
    if not waiting:
        return None
    newest, stopped = waiting[-1], find_stopped_before_dedup(services)
    runs = _automatic_runs(dag_id, newest)
    is_active = bool(runs) and runs[max(runs)].state not in ENDED
    is_stopped = stopped is not None and newest in stopped.deliveries
    if is_active and not is_stopped and max(runs) <= RUNS_BEFORE_REPORT:
        return None
    runs = {number: run for number, run in runs.items() if run.state in ENDED}
    if not runs:
        return None
    number = max(runs)
    last = runs[number]
    ended_at, reason, no_repeat = last.end_date or datetime.now(UTC), "", is_active
    pause = min(REPEAT_AFTER * 2 ** (number - 1), LONGEST_PAUSE)
    ended = _ended_attempts(services, last.run_id)
    stopping = failed_checks(services, ended[-1]) if ended else ()
    if {result.check for result in stopping} == {PARTITION_QUOTA}:
        stopping, pause = (), LONGEST_PAUSE
    if number < MAX_RUNS and any(result.concerns_data for result in stopping):
        pause = timedelta()  # a delivery that waits all the same is tried alone: the run's others are held
    elif stopping:
        reason, no_repeat = FAILED_CHECK, True
    elif is_stopped:
        reason, no_repeat = FAILED_CHECK, is_active or number == MAX_RUNS
    elif number >= RUNS_BEFORE_REPORT:
        failed = all(run.state == DagRunState.FAILED for run in runs.values())
        reason = f"all of its {number} automatic runs " + ("failed" if failed else "ended, and it still waits")
        no_repeat = no_repeat or number == MAX_RUNS or _read_rows(services, last.run_id)
    repeat_at = None if no_repeat else ended_at + pause
    return FailedRun(last.run_id, newest, number, ended_at, reason, repeat_at, is_repeated=is_active)


def _automatic_runs(dag_id: str, delivery: Delivery) -> dict[int, DagRunResult]:
    """The runs that the watch DAG started for the delivery, by their numbers. Numbers of deleted runs are missing."""
    run_ids = _run_ids(delivery)
    count = _count_runs(dag_id, run_ids)
    found = ((number, run) for number, run_id in enumerate(run_ids, 1) if (run := _find_run(dag_id, run_id)))
    return dict(islice(found, count))


def _run_ids(delivery: Delivery) -> list[str]:
    return [publish_run_id(delivery, number) for number in range(1, MAX_RUNS + 1)]


def _find_run(dag_id: str, run_id: str) -> DagRunResult | None:
    """The DAG run as the task execution API describes it; None when there is none."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import DagRunResult, GetDagRun

    answer = find_in_airflow(lambda: task_runner.SUPERVISOR_COMMS.send(GetDagRun(dag_id=dag_id, run_id=run_id)))
    return answer if isinstance(answer, DagRunResult) else None


def _count_runs(dag_id: str, run_ids: list[str]) -> int:
    """How many runs with these ids exist. Airflow's API for tasks cannot list runs."""
    return int(RuntimeTaskInstance.get_dr_count(dag_id, run_ids=run_ids))


def _read_rows(services: Services, run_id: str) -> bool:
    """Whether an attempt of the run got as far as its Spark job, or as the queries of an engine in SQL."""
    intent = services.current.read().intent  # an attempt that could not be ended has no ledger record, but an intent
    unfinished = [] if intent is None or intent.run_id != run_id else [intent.attempt]
    return any(_began_dedup(services, attempt) for attempt in (*_ended_attempts(services, run_id), *unfinished))


def _began_dedup(services: Services, attempt: str) -> bool:
    """Whether Spark, or an engine in SQL, began to work for the attempt.

    The Spark job itself, not the task, writes how far it is: a task can fail before the service has started the job.
    """
    record, layout = services.manifests.find_attempt(attempt), services.layout
    if record is None:
        return False
    began = layout.progress(attempt) if record.engine.runs_spark else layout.dedup_started(attempt)
    return services.store.read(began) is not None


def _ended_attempts(services: Services, run_id: str) -> list[str]:
    records = services.ledger.recent(services.current.read().last_generation, LAST_ATTEMPTS)
    return [record.attempt for record in records if record.run_id == run_id]
