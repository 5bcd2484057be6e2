"""What a running task may ask Airflow about other DAGs: the task's own API, no login and no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dedup_clone.freshness.facts import DagActivity


def dag_activity(dag_id: str) -> DagActivity | None:
    """None when Airflow does not know the DAG (yet)."""
    from airflow.sdk.exceptions import AirflowRuntimeError
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance

    try:
        dag = RuntimeTaskInstance.get_dag(dag_id)
    except AirflowRuntimeError:
        return None
    return DagActivity(
        dag_id=dag_id,
        paused=dag.is_paused,
        at_work=RuntimeTaskInstance.get_dr_count(dag_id, states=["running", "queued"]) > 0,
        succeeded_at=_last_end(dag_id, "success"),
        failed_at=_last_end(dag_id, "failed"),
    )


def _last_end(dag_id: str, state: str) -> datetime | None:
    """When the last scheduled run of that state ended. The message behind `ti.get_previous_dagrun`, for any DAG."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import GetPreviousDagRun, PreviousDagRunResult

    tomorrow = datetime.now(UTC) + timedelta(days=1)
    answer = task_runner.SUPERVISOR_COMMS.send(GetPreviousDagRun(dag_id=dag_id, logical_date=tomorrow, state=state))
    run = answer.dag_run if isinstance(answer, PreviousDagRunResult) else None
    return None if run is None else run.end_date
