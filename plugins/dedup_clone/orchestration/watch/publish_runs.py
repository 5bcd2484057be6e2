"""The publish runs that the watch DAG starts for a delivery: their ids, and when a failed run is repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

from dedup_clone.contract.delivery import Delivery
from dedup_clone.publish.records.attempt_records import failed_checks
from dedup_clone.publish.services import Services
from dedup_clone.state.index import ended_attempts

MAX_RUNS = 4  # of one delivery: the first one and three repeats
REPEAT_AFTER = timedelta(minutes=10)  # from a failure to the first repeat; doubles for each further repeat
RUN_IDS_PER_CALL = 100


def publish_run_id(delivery: Delivery, number: int = 1) -> str:
    """The id of the delivery's `number`-th run. It is not random, so that no run is started twice."""
    first = f"publish__{delivery.snapshot_id}__{delivery.marker_generation}"
    return first if number == 1 else f"{first}__{number}"


def is_automatic_run(run_id: str, delivery: Delivery) -> bool:
    """Whether the watch DAG started the run, and not a person."""
    return run_id in [publish_run_id(delivery, number) for number in range(1, MAX_RUNS + 1)]


@dataclass(frozen=True)
class FailedPublish:
    """The last run of the newest waiting delivery, which failed.

    `repeat_at`: when the next run is due; None when none will be started, and `given_up_because` says why.
    """

    delivery: Delivery
    run_id: str
    number: int
    ended_at: datetime
    repeat_at: datetime | None
    given_up_because: str = ""


def deliveries_without_run(dag_id: str, deliveries: Sequence[Delivery]) -> list[Delivery]:
    """The deliveries for which no run was started.

    Airflow can only count runs, so each batch is counted first. Its deliveries are looked up one by one only if the
    batch has too few runs.
    """
    without: list[Delivery] = []
    for start in range(0, len(deliveries), RUN_IDS_PER_CALL):
        batch = deliveries[start : start + RUN_IDS_PER_CALL]
        if _count_runs(dag_id, [publish_run_id(d) for d in batch]) < len(batch):
            without += [d for d in batch if not _count_runs(dag_id, [publish_run_id(d)])]
    return without


def find_failed_publish(services: Services, dag_id: str, waiting: Sequence[Delivery]) -> FailedPublish | None:
    """The last run of the newest waiting delivery, if it failed and no run of a waiting delivery is active; else None.

    One run publishes all waiting deliveries, so only the newest one is examined. A run that a check ended is not
    repeated: the check would fail again, after the same work.
    """
    if not waiting or _has_active_run(dag_id, waiting):
        return None
    last: Any = None
    number = 0
    while number < MAX_RUNS:
        run = find_run(dag_id, publish_run_id(waiting[-1], number + 1))
        if run is None:
            break
        last, number = run, number + 1
    if last is None or str(last.state) != "failed":
        return None
    ended_at = last.end_date or datetime.now(UTC)
    why_not = ""
    if _failed_by_check(services, last.run_id):
        why_not = "a check before the swap failed"
    elif number == MAX_RUNS:
        why_not = f"all of its {MAX_RUNS} automatic runs failed"
    repeat_at = None if why_not else ended_at + REPEAT_AFTER * 2 ** (number - 1)
    return FailedPublish(waiting[-1], last.run_id, number, ended_at, repeat_at, why_not)


def find_run(dag_id: str, run_id: str) -> Any:
    """The DAG run as the task execution API describes it; None when there is none."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetDagRun

    if not _count_runs(dag_id, [run_id]):
        return None
    try:
        return task_runner.SUPERVISOR_COMMS.send(GetDagRun(dag_id=dag_id, run_id=run_id))
    except AirflowRuntimeError:
        return None  # deleted meanwhile


def _has_active_run(dag_id: str, waiting: Sequence[Delivery]) -> bool:
    ids = [publish_run_id(d, number) for d in waiting for number in range(1, MAX_RUNS + 1)]
    batches = [ids[start : start + RUN_IDS_PER_CALL] for start in range(0, len(ids), RUN_IDS_PER_CALL)]
    return any(_count_runs(dag_id, batch, states=["queued", "running"]) for batch in batches)


def _count_runs(dag_id: str, run_ids: list[str], states: list[str] | None = None) -> int:
    return int(RuntimeTaskInstance.get_dr_count(dag_id, run_ids=run_ids, states=states))


def _failed_by_check(services: Services, run_id: str) -> bool:
    """Whether the last attempt of the run failed a check before the swap."""
    records = ended_attempts(services.store, services.feed.feed)
    attempts = sorted(r.attempt for r in records if r.run_id == run_id)
    return bool(attempts and failed_checks(services, attempts[-1]))
