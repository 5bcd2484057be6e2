"""
### Watch: notices every delivery of the feed and starts exactly one publish run for each.

Runs all the time (`@continuous`): each run waits, deferred, for the next marker below the landing prefix, freezes the
inventory of what arrived, and starts `FEED_publish`. A re-delivery (the marker written again) is a delivery of its own.
Deliveries that came while Airflow was down are found by the next run.

**Do not** trigger it by hand, and do not pause it: while it is paused nothing is noticed (nothing is lost either).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from dedup_clone.orchestration.arrival_sensor import DeliverySensor
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.families import TAG, build_family


def watch(setup: FeedSetup) -> DAG:
    with DAG(
        setup.watch_dag_id,
        description=f"Notices deliveries of {setup.feed.feed}",
        schedule="@continuous",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        doc_md=__doc__,
        auto_register=False,
        tags=[TAG, setup.feed.feed, "watch"],
        default_args={"owner": setup.feed.owner, "retries": 5, "retry_delay": timedelta(seconds=10)},
    ) as dag:
        # -- 1 notice ---- in: markers in landing   runs: triggerer   out: arrival records, one run to start for each
        notice = DeliverySensor(task_id="notice_delivery", setup=setup)

        # -- 2 start ----- in: runs to start        runs: worker      out: FEED_publish runs, each once
        TriggerDagRunOperator.partial(
            task_id="start_publish",
            trigger_dag_id=setup.publish_dag_id,
            logical_date=None,
            skip_when_already_exists=True,
            execution_timeout=timedelta(minutes=5),
        ).expand_kwargs(notice.output)
    return dag


globals().update(build_family(Path(__file__).resolve().parent, "watch", watch))
