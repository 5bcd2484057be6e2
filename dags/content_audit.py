"""
### Content audit: do the tables hold, value by value, what was published?

Each day this DAG chooses some partitions of each feed. For each of them one query compares the rows in target with the
rows in the published files. The audit delays no publish. If a swap replaces target meanwhile, the task is retried.
`content_audit.bytes_per_day` in the feed file bounds the cost per day; `content_audit.enabled: false` leaves the feed
out. For an unequal partition the watchdog sends the alert *content_unequal* (docs/runbook.md). How it works:
docs/operate.md.

Trigger it by hand with a feed and a date to audit that partition now.

If no partition of a feed is due, its task is skipped, and its log says why.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import get_current_context, task

from dedup_clone.orchestration import content_audit as operation
from dedup_clone.orchestration.dag_factory import feed_of_form, shared_dag

EVERY_DAY = "15 4 * * *"  # UTC; any time will do

setup, _ = feed_of_form(__file__)

with shared_dag(
    "content_audit",
    __doc__,
    description="Compares partitions of the tables with the published files",
    schedule=EVERY_DAY,
    # No start_date: with one, Airflow would at once run the last missed interval, even with catchup=False.
    max_active_runs=1,
    allowed_run_types=["scheduled", "manual"],  # a backfill would spend a day's budget, and fail then
    params=operation.params(setup.names),
) as dag:
    # -- 1 choose ---- in: the form, feed files  runs: worker    out: the feeds
    @task
    def choose_feeds() -> list[str]:
        return operation.choose_feeds(setup, get_current_context())

    # -- 2 compare --- in: state, target         runs: BigQuery  out: outcomes, in state; one task for each feed
    @task(map_index_template="{{ feed }}")
    def compare_partitions(feed: str) -> list[dict[str, Any]]:
        context = get_current_context()
        context["feed"] = feed  # type: ignore[typeddict-unknown-key]
        return operation.audit(setup.named(feed), context)

    compare_partitions.expand(feed=choose_feeds())
