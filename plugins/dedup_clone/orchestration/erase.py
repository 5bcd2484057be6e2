"""The form of the erase DAG, and its tasks before and after the steps that it shares with publish.

The form has no field for the keys: Airflow keeps what is typed into a form in its database and in its audit log.
"""

from __future__ import annotations

from airflow.sdk import Param

from dedup_clone.operations.erase import ErasureRequest, delete_leftovers
from dedup_clone.operations.erase import prepare as resolve_erasure
from dedup_clone.operations.erase import preview as preview_erasure
from dedup_clone.orchestration.forms import count_limit_bytes, given_reason, required_reason, with_reason
from dedup_clone.orchestration.step import FeedRun


def params() -> dict[str, Param]:
    return {
        "keys_file": Param(
            "",
            type="string",
            pattern=r"^[A-Za-z0-9_.-]+$",
            title="File of keys",
            description="The name of a CSV file in FEED/to_erase/ of the state bucket: a header with key columns, then "
            "one key a line. The run deletes it at its end.",
        ),
        "count_limit_gib": Param(
            100,
            type="number",
            minimum=0,
            title="Count rows first (GiB)",
            description="The first task counts the rows of the keys with a query of target's key columns, if that "
            "query reads no more than this.",
        ),
        "reason": required_reason(
            "Why the keys are erased, such as the number of a request; stored in the ledger for ever. Name "
            "no person here."
        ),
    }


def _request(run: FeedRun) -> ErasureRequest:
    params = run.form
    return ErasureRequest(run.dag_id, run.run_id, params["keys_file"], given_reason(run))


def show(run: FeedRun) -> dict[str, str]:
    """Returns what would be deleted, with a text for the approver. Acquires no lease."""
    services = run.services
    text = preview_erasure(services, _request(run), count_limit_bytes(run))
    services.log("an erasure would do this:\n" + text)
    return {"text": with_reason(run, text)}


def resolve(run: FeedRun) -> str:
    """Acquires the lease and returns the attempt's id."""
    return resolve_erasure(run.services, _request(run)).id


def clean(run: FeedRun) -> list[str]:
    """Deletes what may still contain the keys, and the file of keys. Returns the deleted folders."""
    return delete_leftovers(run.services, _request(run))
