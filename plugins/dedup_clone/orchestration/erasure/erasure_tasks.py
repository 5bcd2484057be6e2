"""The tasks of the erase DAG before and after the steps that it shares with publish."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context

from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.erasure.erasure_form import read_erasure_request
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.form_fields import count_limit_bytes, with_reason
from dedup_clone.orchestration.shared.task_runtime import fail_without_retry, open_feed_services
from dedup_clone.publish.erasure.delete_leftovers import delete_leftovers
from dedup_clone.publish.erasure.preview_erasure import preview_erasure
from dedup_clone.publish.erasure.resolve_erasure import resolve_erasure


def show_erasure(setup: FeedSetup, context: Context) -> dict[str, str]:
    """Returns what would be deleted, with a text for the approver. Acquires no lease."""
    services = open_feed_services(setup)
    with fail_without_retry():
        text = preview_erasure(services, read_erasure_request(context), count_limit_bytes(context))
    services.log("an erasure would do this:\n" + text)
    return {"text": with_reason(context, text)}


def resolve(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """Acquires the lease, writes the request of the dedup job, and returns the publish spec."""
    with fail_without_retry():
        return to_plain(resolve_erasure(open_feed_services(setup), read_erasure_request(context)))  # type: ignore[no-any-return]


@fail_without_retry()
def clean(setup: FeedSetup, context: Context) -> list[str]:
    """Deletes what may still contain the keys, and the file of keys. Returns the deleted folders."""
    return delete_leftovers(open_feed_services(setup), read_erasure_request(context))
