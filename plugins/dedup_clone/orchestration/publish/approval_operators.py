"""Operators between load and swap: `check_staging`, and `approve_accepted`, which waits for a person's approval.

An approval is needed only if a check failed whose failure was accepted in the form of this replay.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.skipmixin import SkipMixin
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.shared.approval_operator import AskOnceOperator
from dedup_clone.orchestration.shared.feed_setup import FeedSetup
from dedup_clone.orchestration.shared.task_runtime import (
    fail_without_retry,
    open_feed_services,
    pull_spec,
    push_result,
)
from dedup_clone.orchestration.watchdog.feed_check import refresh_verdict
from dedup_clone.publish.approval import approval_text, begin_approval_wait, end_approval_wait
from dedup_clone.publish.check import check_before_swap
from dedup_clone.publish.streamed_rows import reason_to_wait

STREAMED_ROWS_INTERVAL = timedelta(seconds=30)  # how often the streaming buffers are looked at
EVIDENCE = "evidence"  # XCom key of a Markdown text that shows the failed checks to the person who approves


class CheckStagingOperator(BaseOperator, SkipMixin):
    """Runs the checks before the swap, and returns the parameters of the swap as its XCom.

    While staging or target has rows in a streaming buffer, and the freshness SLA leaves time, the task waits, deferred.
    A failed check ends the run unless it is accepted. If no accepted check failed, the task named `approve_task` is
    skipped here, so that Airflow starts no worker for it. `approve_task`: None in a DAG without that task.
    """

    inherits_from_skipmixin = True

    def __init__(self, *, setup: FeedSetup, approve_task: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.setup = setup
        self.approve_task = approve_task

    def execute(self, context: Context) -> dict[str, Any]:
        services, spec = open_feed_services(self.setup), pull_spec(context)
        with fail_without_retry():
            if reason := reason_to_wait(services, spec):
                self.log.info("waits until BigQuery has flushed the streaming buffer: %s", reason)
                self.defer(trigger=TimeDeltaTrigger(STREAMED_ROWS_INTERVAL), method_name="resume_after_interval")
            swap: dict[str, Any] = to_plain(check_before_swap(services, spec))
        if self.approve_task is not None:
            evidence = approval_text(services, spec)
            if evidence is None:
                push_result(context, swap)
                self.skip(context["ti"], [self.dag.get_task(self.approve_task)])
            else:
                context["ti"].xcom_push(key=EVIDENCE, value=evidence)
        return swap

    def resume_after_interval(self, context: Context, event: object = None) -> dict[str, Any]:
        """Called after the interval: the streaming buffer may be empty now."""
        return self.execute(context)


class ApproveAcceptedOperator(AskOnceOperator):
    """Waits until a person approves the swap in spite of the accepted checks that failed.

    `check_task`: the id of the task whose XCom EVIDENCE is shown to that person.

    While the task waits, another run may take over the lease. After that an approval is too late, and the task fails.
    After a rejection, too, the task fails without a retry.
    """

    def __init__(self, *, setup: FeedSetup, check_task: str, **kwargs: Any) -> None:
        body = "{{ ti.xcom_pull(task_ids='" + check_task + "', key='" + EVIDENCE + "') }}"
        super().__init__(body=body, fail_on_reject=True, **kwargs)
        self.setup = setup

    def execute(self, context: Context) -> Any:
        services, spec = open_feed_services(self.setup), pull_spec(context)
        with fail_without_retry():
            # If an earlier try asked already, another run may have taken the lease over: no further retry helps then.
            services.current.require_intent(spec.attempt)
            begin_approval_wait(services, spec)
        refresh_verdict(self.setup)  # which says that the run waits
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException as error:
            raise AirflowFailException(str(error)) from error
        with fail_without_retry():
            end_approval_wait(open_feed_services(self.setup), pull_spec(context))
        return answer
