"""
### Content audit: does target hold, value by value, what was published?

The only check that reads table data. Each day, for the partition whose turn it is: BigQuery hashes its rows, this DAG
hashes the rows of the live generation's files, and both must be equal. It takes no lease and holds up no publish; a
publish in between is noticed and the partition is asked again. What it costs a day is bounded by
`content_audit.bytes_per_day` in the feed's file; what it found is kept in `gs://STATE/FEED/AUDITS`, and the watchdog
tells of a partition that is unequal (*content_unequal* in docs/runbook.md). How it works: docs/content-audit.md.

Trigger it by hand with a date to audit that partition now.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Context, task

from dedup_clone.orchestration import audit_tasks as steps
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.families import TAG, build_family

EVERY_DAY = "15 4 * * *"  # UTC; the time does not matter, target is whole at any


def content_audit(setup: FeedSetup) -> DAG:
    with DAG(
        setup.content_audit_dag_id,
        description=f"Compares partitions of {setup.feed.feed} with what was published",
        schedule=EVERY_DAY if setup.feed.content_audit.enabled else None,
        catchup=False,  # and no start date: with one, Airflow would make up for this morning's run when it first starts
        max_active_runs=1,
        is_paused_upon_creation=False,
        doc_md=__doc__,
        auto_register=False,
        tags=[TAG, setup.feed.feed, "audit"],
        params=steps.audit_params(),
        default_args={
            "owner": setup.feed.owner,
            "retries": 5,
            "retry_delay": timedelta(minutes=1),
            "execution_timeout": timedelta(hours=2),
        },
    ) as dag:
        # -- 1 choose ----- in: CURRENT, AUDITS    runs: worker    out: the dates whose turn it is
        @task(task_id=steps.CHOOSE_TASK)
        def choose_partitions(**context: Any) -> list[str]:
            return steps.choose(setup, Context(**context))

        # -- 2 target ----- in: target             runs: BigQuery  out: fingerprints of its partitions
        @task(task_id=steps.TARGET_TASK)
        def fingerprint_target(**context: Any) -> list[str]:
            return steps.ask_target(setup, Context(**context))

        # -- 3 files ------ in: generation's files runs: worker    out: fingerprints of the same dates
        @task(task_id=steps.FILES_TASK)
        def fingerprint_files(**context: Any) -> dict[str, str]:
            return steps.read_files(setup, Context(**context))

        # -- 4 compare ---- in: both               runs: worker    out: outcomes in AUDITS; fails when unequal
        @task
        def compare_fingerprints(**context: Any) -> list[dict[str, Any]]:
            return steps.compare(setup, Context(**context))

        choose_partitions() >> fingerprint_target() >> fingerprint_files() >> compare_fingerprints()
    return dag


globals().update(build_family(Path(__file__).resolve().parent, "content_audit", content_audit))
