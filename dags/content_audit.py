"""
### Content audit: does target hold, value by value, what was published?

Each day this DAG chooses some partitions. For each of them one query compares the rows in target with the rows in the
published files. The audit delays no publish. If a swap replaces target meanwhile, the task is retried.
`content_audit.bytes_per_day` in the feed file bounds the cost per day. Results are stored in `gs://STATE/FEED/AUDITS`;
for an unequal partition the watchdog sends the alert *content_unequal* (docs/runbook.md). How it works:
docs/content-audit.md.

Trigger it by hand with a date to audit that partition now.

If no partition is due, the task is skipped, and its log says why.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG

from dedup_clone.orchestration import content_audit as operation
from dedup_clone.orchestration.retries import RetryWhatMayHelp
from dedup_clone.orchestration.setup import TAG, FeedSetup, build_dags
from dedup_clone.orchestration.step import Step

EVERY_DAY = "15 4 * * *"  # UTC; any time will do


def content_audit(setup: FeedSetup) -> DAG:
    with DAG(
        setup.dag_id("content_audit"),
        description=f"Compares partitions of {setup.feed.feed} with the published files",
        schedule=EVERY_DAY if setup.feed.content_audit.enabled else None,
        # No start_date: with one, Airflow would at once run the last missed interval, even with catchup=False.
        catchup=False,
        max_active_runs=1,
        is_paused_upon_creation=False,
        doc_md=__doc__,
        auto_register=False,  # see build_dags
        tags=[TAG, setup.feed.feed, "audit"],
        params=operation.params(),
        default_args={
            "owner": setup.feed.owner,
            "retries": 5,
            "retry_delay": timedelta(minutes=1),
            "retry_policy": RetryWhatMayHelp(),
            "execution_timeout": timedelta(hours=2),
        },
    ) as dag:
        Step(task_id="compare_partitions", setup=setup, run=operation.audit)
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "content_audit", content_audit))
