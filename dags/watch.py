"""
### Watch: notices every delivery of the feed and starts publish runs.

When a run ends, the next one starts (`@continuous`). Each run waits, as a deferred task, for the next marker in the
feed's part of the landing bucket, records which files the delivery consists of, and starts `FEED_publish`. If a marker
is written again, that is a new delivery. The next run finds deliveries that arrived while Airflow was down. If the
publish run of the newest waiting delivery fails, a further one is started later, unless a check ended it
(docs/operate.md).

**Do not** pause it: while it is paused, no publish starts. No delivery is lost then. Nobody can trigger it by hand:
that run would wait for the end of the one that waits for a marker.

A run that has no publish to start skips the task `start_publish`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG

from dedup_clone.orchestration.dag_factory import build_dags, feed_dag
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.step import Step
from dedup_clone.orchestration.watch.notice_delivery import notice_delivery


def watch(setup: FeedSetup) -> DAG:
    with feed_dag(
        setup,
        "watch",
        __doc__,
        description=f"Detects deliveries of {setup.feed.feed}",
        schedule="@continuous",
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        max_active_runs=1,
        allowed_run_types=["scheduled"],
        default_args={"owner": setup.feed.owner, "retries": 5, "retry_delay": timedelta(seconds=10)},
    ) as dag:
        # -- 1 notice ---- in: markers in landing   runs: triggerer   out: arrival records, the runs to start
        notice = Step(task_id="notice_delivery", setup=setup, run=notice_delivery)

        # -- 2 start ----- in: runs to start        runs: worker      out: FEED_publish runs, each once
        TriggerDagRunOperator.partial(
            task_id="start_publish",
            trigger_dag_id=setup.dag_id("publish"),
            logical_date=None,
            skip_when_already_exists=True,
            execution_timeout=timedelta(minutes=5),
        ).expand_kwargs(notice.output)
    return dag


globals().update(build_dags(__file__, watch))
