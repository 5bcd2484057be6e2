"""Checks before the swap, and the approval that a swap needs when a check failed and its run accepts that."""

from __future__ import annotations

from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.skipmixin import SkipMixin
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.connect import FeedSetup, connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import hand_on, pull_order
from dedup_clone.publish.approval import approval_text, begin_wait, end_wait
from dedup_clone.publish.check import check_before_swap

EVIDENCE = "evidence"  # XCom key: what is to be approved


class CheckStagingOperator(BaseOperator, SkipMixin):
    """Returns what may be swapped. A failed check ends the run; target keeps its content.

    Where no failed check was accepted, the approval is skipped from here, which starts no task for it.
    """

    inherits_from_skipmixin = True

    def __init__(self, *, setup: FeedSetup, approval: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup
        self.approval = approval

    def execute(self, context: Context) -> dict[str, Any]:
        services, order = connect(self.setup), pull_order(context)
        with failing_at_once():
            swap = to_plain(check_before_swap(services, order))
        evidence = approval_text(services, order)
        if evidence is None:
            hand_on(context, swap)
            self.skip(context["ti"], [self.dag.get_task(self.approval)])
        else:
            context["ti"].xcom_push(key=EVIDENCE, value=evidence)
        return swap  # type: ignore[no-any-return]


class ApproveAcceptedOperator(ApprovalOperator):
    """Waits for a person. The lease gives way meanwhile; approved, it is held again, if nobody took it.

    An answer is final, and so is none in time. Retries are for a task that Airflow takes for lost, as it does when the
    answer comes before its scheduler has heard that the task waits: the question is then asked again.
    """

    def __init__(self, *, setup: FeedSetup, checked_by: str, **kwargs: Any) -> None:
        body = "{{ ti.xcom_pull(task_ids='" + checked_by + "', key='" + EVIDENCE + "') }}"
        super().__init__(body=body, fail_on_reject=True, **kwargs)
        self.setup = setup

    def execute(self, context: Context) -> Any:
        begin_wait(connect(self.setup), pull_order(context))
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        try:
            answer = super().execute_complete(context, event)
        except (HITLRejectException, HITLTimeoutError) as final:
            raise AirflowFailException(str(final)) from final
        with failing_at_once():
            end_wait(connect(self.setup), pull_order(context))
        return answer
