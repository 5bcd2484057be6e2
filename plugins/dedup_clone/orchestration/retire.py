"""The form and the tasks of the retire DAG."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Context, Param

from dedup_clone.contract.records import to_plain
from dedup_clone.operations.retire import RetirementRequest
from dedup_clone.operations.retire import preview as preview_retirement
from dedup_clone.operations.retire import retire as retire_feed
from dedup_clone.orchestration.forms import given_reason, required_reason, with_reason
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.task_runtime import open_feed_services
from dedup_clone.state.current import TargetAction


def params() -> dict[str, Param]:
    """The form's fields. By default readers keep target."""
    return {
        "target": Param(
            str(TargetAction.KEEP),
            type="string",
            enum=[str(action) for action in TargetAction],
            title="Target",
            description="keep: leave the table to its readers, as it is. export: write its rows to Parquet files in "
            "state, then drop it. drop: drop it.",
        ),
        "reason": required_reason("Why the feed is retired; stored in state."),
    }


def show(setup: FeedSetup, context: Context) -> dict[str, str]:
    """Returns what would be done, with a text for the approver."""
    services = open_feed_services(setup)
    text = preview_retirement(services, _request(context))
    services.log("a retirement would do this:\n" + text)
    return {"text": with_reason(context, text)}


def retire(setup: FeedSetup, context: Context) -> dict[str, Any]:
    """Takes the feed out of use and returns the record of the retirement."""
    return to_plain(retire_feed(open_feed_services(setup), _request(context)))  # type: ignore[no-any-return]


def _request(context: Context) -> RetirementRequest:
    params, run = context["params"], context["dag_run"]
    return RetirementRequest(run.dag_id, run.run_id, TargetAction(params["target"]), given_reason(context))
