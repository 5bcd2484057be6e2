"""The operator with which every DAG asks a person for approval."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException


class AskOnceOperator(ApprovalOperator):
    """Waits until a person approves or rejects. If nobody does in time, fails without a retry.

    The task still has retries: Airflow can lose a worker, or an answer that arrives before the scheduler knows that the
    task waits. A retry asks again.
    """

    def process_trigger_event_error(self, event: dict[str, Any]) -> None:
        if event["error_type"] == "timeout":
            raise AirflowFailException(
                "Nobody answered in time. To be asked again, trigger the DAG again, or clear the run from its first "
                "task."
            )
        super().process_trigger_event_error(event)
