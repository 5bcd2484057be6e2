"""The assumption that BigQuery runs no job of a publish twice: each job of several kinds of publishes is sent again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from google.api_core.exceptions import Conflict

from dedup_clone.contract.engine import Engine
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.settings.feed import Feed
from deploy.probe.assumption import DoesNotHold, Register, expect
from deploy.probe.changing_tables import products
from deploy.probe.probe_dataset import ProbeDataset
from deploy.probe.publishes import PublishedFeed, publishing
from testkit.feed_against_oracle import feed_with_table
from testkit.feed_on_stand_in import row
from testkit.table_contracts import PRODUCTS

assumption = Register()
# The steps of the jobs that the publishes of this test run, without the numbers and dates in their names.
STEPS = {"append", "evidence", "examine", "export", "incoming", "load", "swap"}


@contextmanager
def sent_jobs(probe: ProbeDataset) -> Iterator[list[dict[str, Any]]]:
    """The REST resources of all jobs that the `with` block sends and whose ids begin with `dedup_clone-`."""
    sent: list[dict[str, Any]] = []
    connection: Any = probe.client._connection
    send = connection.api_request

    def recording(**request: Any) -> Any:
        job = request.get("data") or {}
        if request["method"] == "POST" and job.get("jobReference", {}).get("jobId", "").startswith("dedup_clone-"):
            sent.append(job)
        return send(**request)

    connection.api_request = recording
    try:
        yield sent
    finally:
        connection.api_request = send


def _last_changed(feed: Feed) -> Feed:
    """The feed in the mode in which only dates with changed rows are loaded."""
    return feed.model_copy(update={"update_id_mode": UpdateIdMode.LAST_CHANGED})


@assumption(
    "publish-job-ids-once",
    statement="BigQuery accepts no second job under the id of any job of a publish, even after the first has ended",
    rule="A retry attaches to its job, and recovery fences job ids.",
    code=("plugins/dedup_clone/publish/attempt_jobs.py", "plugins/dedup_clone/publish/recovery.py"),
    instead="Clear a failed run from its first task only, when no job of it is running.",
)
@partial(publishing, table=PRODUCTS, engine=Engine.BIGQUERY)
def job_ids_once(probe: ProbeDataset, feed: PublishedFeed) -> str:
    """Publishes with engines bigquery, merge and spark, and changes one date of a second feed; sends each job again."""
    by_dates = PublishedFeed((probe.storage, probe.client), _last_changed(feed_with_table(PRODUCTS)), feed.places)
    with sent_jobs(probe) as sent:
        for number, engine in enumerate((Engine.BIGQUERY, Engine.MERGE, Engine.SPARK), 1):
            feed.publish(feed.land(number, products(probe, number)), engine=engine)
        days = (probe.days_ago(1), probe.today)
        for number in (1, 2):
            by_dates.publish(
                by_dates.land(number, [row(number, 1, number * (day == probe.today), day=day) for day in days])
            )
    steps = {job["jobReference"]["jobId"].rsplit("-", 2)[1] for job in sent}
    expect("steps", {step.split("_")[0] for step in steps}, STEPS)
    expect("one date was loaded by a job of its own", f"load_{probe.today:%Y%m%d}" in steps, True)
    rows_before, created = feed.table_rows(), probe.client.get_table(probe.table(feed.feed.target)).created
    for job in sent:
        name = job["jobReference"]["jobId"]
        try:
            probe.rest("jobs", "POST", job)
        except Conflict:
            continue
        raise DoesNotHold(f"A second job with the id [{name}] was accepted.")
    expect("rows of target", feed.table_rows(), rows_before)
    expect("creation time of target", probe.client.get_table(probe.table(feed.feed.target)).created, created)
    return f"[{len(sent)}] jobs of the steps {', '.join(sorted(steps))} were refused with 409, and changed nothing."
