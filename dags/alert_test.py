"""
### Alert test: sends one test alert and its recovery to everybody who is told of incidents.

Trigger it by hand after a change of the profile's section `alerts`, or of a connection that this section names. The run
fails when a notifier fails, and when the profile names no notifier. The messages say that they are a test.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

from dedup_clone.orchestration.shared.dag_factory import TAG
from dedup_clone.orchestration.shared.feed_setup import find_folders
from dedup_clone.orchestration.watchdog.alert_test import send_alerts_of_profile

folders = find_folders(Path(__file__).resolve().parent)

with DAG(
    "alert_test",
    description="Sends a test alert to every notifier",
    schedule=None,
    max_active_runs=1,
    is_paused_upon_creation=False,
    doc_md=__doc__,
    tags=[TAG, "watchdog"],
    default_args={"owner": "data-platform", "retries": 0, "execution_timeout": timedelta(minutes=5)},
) as dag:
    # -- 1 send -- in: the profile   runs: worker   out: the names of the notifiers that accepted both messages
    @task(task_id="send_test_alerts")
    def send() -> list[str]:
        return send_alerts_of_profile(folders.profiles)

    send()
