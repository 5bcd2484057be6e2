"""
### Content audit: does target hold, value by value, what was published?

Each day this DAG chooses some partitions. For each of them BigQuery computes a fingerprint (a count and hashes) of the
rows in target, a task computes the fingerprint of the rows in the published files, and both must be equal. The audit
delays no publish. If a swap replaces target meanwhile, the partition's fingerprint is computed again.
`content_audit.bytes_per_day` in the feed file bounds the cost per day. Results are stored in `gs://STATE/FEED/AUDITS`;
for an unequal partition the watchdog sends the alert *content_unequal* (docs/runbook.md). How it works:
docs/content-audit.md.

Trigger it by hand with a date to audit that partition now.

If no partition is due, all tasks are skipped, as the log of `choose_partitions` says.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, task

from dedup_clone.orchestration.content_audit import audit_tasks
from dedup_clone.orchestration.shared.dag_factory import TAG, build_dags
from dedup_clone.orchestration.shared.feed_setup import FeedSetup

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
        params=audit_tasks.audit_params(),
        default_args={
            "owner": setup.feed.owner,
            "retries": 5,
            "retry_delay": timedelta(minutes=1),
            "execution_timeout": timedelta(hours=2),
        },
    ) as dag:
        # -- 1 choose ----- in: form, CURRENT, AUDITS  runs: worker    out: the dates that are due
        @task(task_id=audit_tasks.CHOOSE_TASK)
        def choose_partitions(**context: Any) -> list[str]:
            return audit_tasks.select_dates(setup, Context(**context))

        # -- 2 target ----- in: target                 runs: BigQuery  out: fingerprints of its partitions
        @task(task_id=audit_tasks.TARGET_TASK)
        def fingerprint_target(**context: Any) -> list[str]:
            return audit_tasks.fingerprint_target_partitions(setup, Context(**context))

        # -- 3 files ------ in: generation's files     runs: worker    out: fingerprints of the same dates
        @task(task_id=audit_tasks.FILES_TASK)
        def fingerprint_files(**context: Any) -> dict[str, str]:
            return audit_tasks.fingerprint_generation_files(setup, Context(**context))

        # -- 4 compare ---- in: both fingerprints      runs: worker    out: outcomes in AUDITS; fails when unequal
        @task
        def compare_fingerprints(**context: Any) -> list[dict[str, Any]]:
            return audit_tasks.compare(setup, Context(**context))

        choose_partitions() >> fingerprint_target() >> fingerprint_files() >> compare_fingerprints()
    return dag


globals().update(build_dags(Path(__file__).resolve().parent, "content_audit", content_audit))
