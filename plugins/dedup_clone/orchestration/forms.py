"""What the DAGs that a person starts share: fields of their forms, and the question whether to go on."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.costs import GIB
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup
from dedup_clone.orchestration.step import FeedRun


def required_reason(description: str) -> Param:
    """The field for a reason. Airflow starts no run while it is empty or has only spaces."""
    return Param("", type="string", pattern=r"\S", title="Reason", description=description)


def given_reason(run: FeedRun) -> str:
    """The form's reason, with the name of the user who triggered the run if Airflow knows it. The ledger keeps both."""
    reason, user = run.form["reason"].strip(), run.context["dag_run"].triggering_user_name
    return f"{reason} (asked by {user})" if user else reason


_MARKUP = re.compile(r"([\\`*_\[\]<>|])")


def with_reason(run: FeedRun, text: str) -> str:
    """Returns `text`, which the approver will read, with the reason added as Markdown that shows it as it was typed."""
    return f"{text}\n\nReason given: " + _MARKUP.sub(r"\\\1", " ".join(given_reason(run).split()))


def count_limit_bytes(run: FeedRun) -> int:
    """The most bytes that the first task's query may read: the form's field `count_limit_gib`."""
    return int(run.form["count_limit_gib"] * GIB)


class AskOnceOperator(ApprovalOperator):
    """Waits until a person approves, or rejects: then every later task is skipped.

    If nobody answers in time, fails without a retry.

    `shown_by`: the task whose result has the `text` that the person reads. The title of the question begins with the
    feed's name, by which the page finds the open questions of a feed.

    The task still has retries: Airflow can lose a worker, or an answer that arrives before the scheduler knows that the
    task waits. A retry asks again.
    """

    def __init__(
        self,
        *,
        setup: FeedSetup | FeedOfForm,
        question: str,
        shown_by: str,
        response_timeout: timedelta = timedelta(hours=12),
        **kwargs: Any,
    ) -> None:
        super().__init__(
            subject=f"{setup.title}: {question}",
            body="{{ ti.xcom_pull(task_ids='" + shown_by + "')['text'] }}",
            response_timeout=response_timeout,
            ignore_downstream_trigger_rules=True,  # else the tasks behind the next one follow their own rules
            **kwargs,
        )

    def process_trigger_event_error(self, event: dict[str, Any]) -> None:
        if event["error_type"] == "timeout":
            raise AirflowFailException(
                "Nobody answered in time. To be asked again, trigger the DAG again, or clear the run from its first "
                "task."
            )
        super().process_trigger_event_error(event)
