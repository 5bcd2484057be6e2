"""
### Backfill: publishes the snapshots of an archive, for example the history from before this project.

**Trigger it by hand** with the archive's folder. `show_backfill` shows which of the archived snapshots never landed;
`approve_backfill` waits for your approval (Required Actions). Then `land_snapshots` copies them to landing in the order
of their ids, a few at a time, and only while no delivery waits. `FEED_watch` and `FEED_publish` do the rest, as for
every delivery. To end a backfill early, mark `land_snapshots` as failed; a later run lands the remaining snapshots.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, task

from dedup_clone.orchestration.backfill import backfill_tasks
from dedup_clone.orchestration.backfill.backfill_form import backfill_params
from dedup_clone.orchestration.publish.publish_steps import feed_dag_arguments
from dedup_clone.orchestration.shared.approval_operator import AskOnceOperator
from dedup_clone.orchestration.shared.dag_factory import TAG, build_dags
from dedup_clone.orchestration.shared.feed_setup import FeedSetup


def backfill(setup: FeedSetup) -> DAG:
    with DAG(
        setup.dag_id("backfill"),
        description=f"Publishes archived snapshots of {setup.feed.feed}",
        schedule=None,
        max_active_runs=1,
        doc_md=__doc__,
        tags=[TAG, setup.feed.feed, "backfill"],
        params=backfill_params(),
        **feed_dag_arguments(setup, task_timeout=timedelta(hours=12)),
    ) as dag:
        # -- 1 show ------- in: the form, archive  runs: worker    out: which snapshots would land
        @task
        def show_backfill(**context: Any) -> str:
            return backfill_tasks.show_backfill(setup, Context(**context))

        # -- 2 approve ---- in: what was shown     runs: a person  out: approved, or the next task is skipped
        approve_backfill = AskOnceOperator(
            task_id="approve_backfill",
            subject=f"Publish archived snapshots of {setup.feed.feed}?",
            body="{{ ti.xcom_pull(task_ids='show_backfill') }}",
            response_timeout=timedelta(hours=12),
        )

        # -- 3 land ------- in: archive, state     runs: worker    out: objects in landing; looks once a minute
        # With `silent_fail` a transient error does not fail the task, however long an outage lasts: the task looks
        # again every minute.
        @task.sensor(poke_interval=60, timeout=timedelta(days=60), mode="reschedule", silent_fail=True)
        def land_snapshots(**context: Any) -> bool:
            return backfill_tasks.land_next(setup, Context(**context))

        show_backfill() >> approve_backfill >> land_snapshots()
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "backfill", backfill))
