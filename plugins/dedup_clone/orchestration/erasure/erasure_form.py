"""The trigger form of the erase DAG, and the request that a filled form makes.

The form has no field for the keys: Airflow keeps what is typed into a form in its database and in its audit log.
"""

from __future__ import annotations

from airflow.sdk import Context, Param

from dedup_clone.orchestration.shared.form_fields import given_reason, required_reason
from dedup_clone.publish.erasure.resolve_erasure import ErasureRequest


def erasure_params() -> dict[str, Param]:
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


def read_erasure_request(context: Context) -> ErasureRequest:
    params, run = context["params"], context["dag_run"]
    return ErasureRequest(run.dag_id, run.run_id, params["keys_file"], given_reason(context))
