"""
### Freshness watchdog: checks every feed every few minutes and sends one alert for each incident.

It also writes what runs could not write into the tables `dedup_clone_status` and `dedup_clone_ledger`.

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
from dedup_clone.orchestration.shared.feed_setup import FeedSetup, find_folders, read_feed_setup
from dedup_clone.orchestration.watchdog.feed_check import check_feed, check_interval
from dedup_clone.orchestration.watchdog.reporting import write_missing_rows

folders = find_folders(Path(__file__).resolve().parent)


def watch(feed_file: Path) -> FeedSetup | None:
    task_id = f"watch_{feed_file.stem}"
    try:
        setup = read_feed_setup(feed_file, folders)
    except ConfigurationError as error:
        ConfigurationErrorOperator(task_id=task_id, error=str(error), retries=0)
        return None

    @task(task_id=task_id, owner=setup.feed.owner)
    def watch_feed() -> list[str]:
        return check_feed(setup)

    watch_feed()
    return setup


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
    setups = [setup for setup in map(watch, folders.feed_files) if setup is not None]

    if setups:
        # -- reporting tables -- in: rows that runs left in state   runs: worker   out: status table, ledger table
        @task(owner=setups[0].feed.owner)
        def write_reporting_tables() -> None:
            write_missing_rows(setups[0])

        write_reporting_tables()
