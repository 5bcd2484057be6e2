"""
### Freshness watchdog: checks every feed every few minutes and sends one alert for each incident.

It does not depend on publish runs: it compares what has arrived with what is live, and looks for what delays the rest.
Each feed has its own task, and a task that fails affects no other feed. There is one alert when an incident begins and
one when it has ended; docs/runbook.md lists every kind of incident and what to do. Metrics: docs/metrics.md.

**Do not** pause it: while it is paused there are no alerts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.shared.dag_factory import TAG, ConfigurationErrorOperator
from dedup_clone.orchestration.shared.feed_setup import find_folders, read_feed_setup
from dedup_clone.orchestration.watchdog.feed_check import check_feed, check_interval

folders = find_folders(Path(__file__).resolve().parent)


def watch(feed_file: Path) -> None:
    task_id = f"watch_{feed_file.stem}"
    try:
        setup = read_feed_setup(feed_file, folders)
    except ConfigurationError as error:
        ConfigurationErrorOperator(task_id=task_id, error=str(error), retries=0)
        return

    @task(task_id=task_id, owner=setup.feed.owner)
    def watch_feed() -> list[str]:
        return check_feed(setup)

    watch_feed()


with DAG(
    "freshness_watchdog",
    description="Alerts when a table misses its freshness SLA, or is about to",
    schedule=check_interval(folders.profiles),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    dagrun_timeout=timedelta(minutes=15),
    is_paused_upon_creation=False,
    doc_md=__doc__,
    tags=[TAG, "watchdog"],
    default_args={"retries": 1, "retry_delay": timedelta(seconds=20), "execution_timeout": timedelta(minutes=5)},
) as dag:
    # -- one task per feed -- in: state, landing, target's metadata, Airflow   runs: worker   out: verdict, alerts
    for feed_file in folders.feed_files:
        watch(feed_file)
