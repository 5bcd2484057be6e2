"""The form and the tasks of the retire DAG."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

from dedup_clone.contract.records import to_plain
from dedup_clone.operations.retire import RetirementRequest
from dedup_clone.operations.retire import preview as preview_retirement
from dedup_clone.operations.retire import retire as retire_feed
from dedup_clone.orchestration.forms import given_reason, required_reason, with_reason
from dedup_clone.orchestration.publish import LEASE_RETRY_INTERVAL
from dedup_clone.orchestration.step import FeedRun, NotYet
from dedup_clone.state.current import TargetAction


def params() -> dict[str, Param]:
    """The form's fields. By default readers keep target."""
    return {
        "target": Param(
            str(TargetAction.KEEP),
            type="string",
            enum=[str(action) for action in TargetAction],
            title="Target",
            description="keep: leave the table to its readers, as it is. drop: drop it.",
        ),
        "reason": required_reason("Why the feed is retired; stored in state."),
    }


def show(run: FeedRun) -> dict[str, str]:
    """Returns what would be done, with a text for the approver."""
    services = run.services
    text = preview_retirement(services, _request(run))
    services.log("a retirement would do this:\n" + text)
    return {"text": with_reason(run, text)}


def retire(run: FeedRun) -> dict[str, Any]:
    """Takes the feed out of use and returns the record of the retirement.

    Waits while another run does the same.
    """
    retired = run.services.current.read().retired
    if retired and retired.run_id != run.run_id and run.services.is_running(run.dag_id, retired.run_id):
        raise NotYet(f"run [{retired.run_id}] retires the feed", LEASE_RETRY_INTERVAL)
    return to_plain(retire_feed(run.services, _request(run)))  # type: ignore[no-any-return]


def _request(run: FeedRun) -> RetirementRequest:
    params = run.form
    return RetirementRequest(run.dag_id, run.run_id, TargetAction(params["target"]), given_reason(run))
