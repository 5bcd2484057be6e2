"""The tasks of the backfill DAG."""

from __future__ import annotations

from airflow.sdk import Context

from dedup_clone.orchestration.backfill.backfill_form import read_backfill_request
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.form_fields import with_reason
from dedup_clone.orchestration.shared.task_runtime import fail_without_retry, open_feed_services, open_gcs_bucket
from dedup_clone.publish.backfill.archived_snapshots import BackfillRequest, describe_backfill
from dedup_clone.publish.backfill.land_snapshots import land_next_snapshots
from dedup_clone.state.landing import Landing


def show_backfill(setup: FeedSetup, context: Context) -> str:
    """Returns what the backfill would do, as text for the approver."""
    request = read_backfill_request(context)
    with fail_without_retry():
        text = describe_backfill(open_feed_services(setup), _archive(setup, request), request)
    return with_reason(context, text)


def land_next(setup: FeedSetup, context: Context) -> bool:
    """Lands the next snapshots if the backfill need not wait. Returns whether all landed and no delivery waits."""
    request = read_backfill_request(context)
    with fail_without_retry():
        return land_next_snapshots(open_feed_services(setup), _archive(setup, request), request)


def _archive(setup: FeedSetup, request: BackfillRequest) -> Landing:
    """The archive, read with the class for landing: its folders are named as those of landing."""
    bucket, prefix = request.bucket_and_prefix()
    store = open_gcs_bucket(setup.deployment.google_cloud_connection, bucket)
    return Landing(store, prefix, setup.feed.landing.marker)
