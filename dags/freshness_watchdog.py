"""
### Freshness watchdog: checks every feed every five minutes and sends one alert for each incident.

It does not depend on publish runs: it compares the deliveries that arrived with the live generation, and looks for what
delays those that are not live yet. One task checks all feeds; a feed that cannot be checked affects no other.
docs/runbook.md lists every kind of incident and what to do. Metrics: docs/alerts-and-metrics.md.

A second task loads what publishes, rollbacks and the other runs that change a table could not load: rows of the tables
`dedup_clone_ledger` and `FEED_changes`.

**Do not** pause it: while it is paused there are no alerts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from dedup_clone.freshness.verdict import CHECK_INTERVAL
from dedup_clone.orchestration.dag_factory import TAG
from dedup_clone.orchestration.setup import find_folders
from dedup_clone.orchestration.watchdog.all_feeds import check_all_feeds, first_valid_setup
from dedup_clone.orchestration.watchdog.reporting import load_waiting_rows

folders = find_folders(Path(__file__).resolve().parent)

with DAG(
    "freshness_watchdog",
    description="Alerts when a table misses its freshness SLA, or is about to",
    schedule=CHECK_INTERVAL,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    allowed_run_types=["scheduled", "manual"],  # the runs of a backfill would check at the same time, and alert twice
    dagrun_timeout=timedelta(minutes=15),
    is_paused_upon_creation=False,
    doc_md=__doc__,
    tags=[TAG, "watchdog"],
    default_args={
        "owner": TAG,
        "retries": 1,
        "retry_delay": timedelta(seconds=20),
        "execution_timeout": timedelta(minutes=10),
    },
) as dag:
    # -- 1 check ----- in: state, landing, targets' metadata, Airflow   runs: worker   out: verdicts, alerts
    @task
    def check_feeds() -> dict[str, list[str]]:
        return check_all_feeds(folders)

    # -- 2 report ---- in: rows that runs left in state   runs: worker   out: ledger and changes tables
    @task
    def write_reporting_tables() -> None:
        setup = first_valid_setup(folders)  # the task serves all feeds, but opens its clients with the setup of one
        if setup:
            load_waiting_rows(setup)

    check_feeds()
    write_reporting_tables()
