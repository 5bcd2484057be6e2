"""
### Freshness watchdog: looks at every feed every few minutes and tells what is wrong, once.

Independent of the publish runs: it judges what has arrived, what is live and what stands between the two. Each feed
has a task of its own; one that fails hides no other. An incident is told when it begins and when it has ended; what
each one means and what to do is in docs/runbook.md. Metrics: docs/metrics.md.

**Do not** pause it: nobody is told of anything while it is.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.connect import FeedSetup
from dedup_clone.orchestration.families import TAG, ShowConfigurationError
from dedup_clone.orchestration.folders import find_folders
from dedup_clone.orchestration.watchdog import feed_setups, look_at_feed, look_interval

folders = find_folders(Path(__file__).resolve().parent)


def watch(name: str, setup: FeedSetup | ConfigurationError) -> None:
    task_id = f"watch_{name}"
    if isinstance(setup, ConfigurationError):
        ShowConfigurationError(task_id=task_id, error=str(setup), retries=0)
        return

    @task(task_id=task_id, owner=setup.feed.owner)
    def watch_feed() -> list[str]:
        return look_at_feed(setup)

    watch_feed()


with DAG(
    "freshness_watchdog",
    description="Tells when a table is not as fresh as promised, or will not be",
    schedule=look_interval(folders.profiles),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=15),
    is_paused_upon_creation=False,
    doc_md=__doc__,
    tags=[TAG, "watchdog"],
    default_args={"retries": 1, "retry_delay": timedelta(seconds=20), "execution_timeout": timedelta(minutes=5)},
) as dag:
    # -- one task a feed -- in: state, landing, target's metadata, Airflow   runs: worker   out: incidents, alerts
    for feed, found in feed_setups(folders).items():
        watch(feed, found)
