"""What the DAGs that a person starts share: the reason, the preview, the question, and the tasks up to the commit.

An operation of `dedup_clone/operations/` becomes a DAG here. Its DAG file names its tasks in their order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import BaseOperator, Param, chain
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import LeaseHeld
from dedup_clone.orchestration.load_to_commit import load_to_commit
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup
from dedup_clone.orchestration.step import FeedRun, NotYet, Step
from dedup_clone.publish.recovery import require_no_other_run
from dedup_clone.publish.services import Services

LEASE_RETRY_INTERVAL = timedelta(seconds=10)
_MARKUP = re.compile(r"([\\`*_\[\]<>|])")


def required_reason(description: str) -> Param:
    """The field for a reason. Airflow starts no run while it is empty or has only spaces."""
    return Param("", type="string", pattern=r"\S", title="Reason", description=description)


def given_reason(run: FeedRun) -> str:
    """The form's reason, with the name of the user who triggered the run if Airflow knows it. The ledger keeps both."""
    reason, user = run.form["reason"].strip(), run.context["dag_run"].triggering_user_name
    return f"{reason} (asked by {user})" if user else reason


def with_reason(run: FeedRun, text: str) -> str:
    """Returns `text`, which the approver will read, with the reason added as Markdown that shows it as it was typed."""
    return f"{text}\n\nReason given: " + _MARKUP.sub(r"\\\1", " ".join(given_reason(run).split()))


@contextmanager
def _waiting_for_the_lease() -> Iterator[None]:
    """Raises NotYet instead of LeaseHeld. If the other run hangs, the watchdog reports it."""
    try:
        yield
    except LeaseHeld as error:
        raise NotYet(f"for the lease: {error}", LEASE_RETRY_INTERVAL) from error


@dataclass(frozen=True)
class Operation:
    """An operation as its DAG sees it.

    `name`: in words. `read`: what the filled form asks for. `preview`, `prepare`: those of the operation's module (see
    dedup_clone/operations).
    """

    name: str
    read: Callable[[FeedRun], Any]
    preview: Callable[[Services, Any], tuple[Any, str]]
    prepare: Callable[[Services, Any, Any], Any]

    def show(self, run: FeedRun) -> dict[str, Any]:
        """Returns what would be done, with a text for the approver, and what must not change until the approval.

        Acquires no lease, and waits while another run holds it.
        """
        form = self.read(run)
        with _waiting_for_the_lease():
            require_no_other_run(run.services, form)  # what that run publishes would change the preview
        shown, text = self.preview(run.services, form)
        run.services.log(f"{self.name} would do this:\n{text}")
        return {"shown": shown, "text": with_reason(run, text)}

    def begin(self, run: FeedRun, show_task: str | None = None, form: Any = None) -> Any:
        """Acquires the lease and returns what `prepare` returns. Waits while another run holds the lease.

        Fails if what `show_task` showed has changed since. Skips the task if there is nothing to do. `form`: None if it
        is still to be read.
        """
        shown = run.result_of(show_task)["shown"] if show_task else None
        with _waiting_for_the_lease():
            begun = self.prepare(run.services, form or self.read(run), shown)
        if isinstance(begun, str):
            raise AirflowSkipException(begun)
        return begun

    def resolve(self, run: FeedRun, show_task: str) -> str:
        """As `begin`; returns the attempt's id."""
        return str(self.begin(run, show_task).id)

    def step(self, function: Callable[[Services, Any, Attempt], Any]) -> Callable[[FeedRun], Any]:
        """The run of a step of this operation, which calls `function` with the form and the attempt."""
        return lambda run: function(run.services, self.read(run), run.attempt)


class AskOnceOperator(ApprovalOperator):
    """Waits until a person approves, or rejects: then every later task is skipped.

    If nobody answers in time, fails without a retry.

    `shown_by`: the task whose result has the `text` that the person reads. The title of the question begins with the
    feed's name, by which the page finds the open questions of a feed.

    The task still has retries: Airflow can lose a worker. A retry asks again. If somebody answers before the task's
    state is awaiting_input, Airflow (3.3) goes on only at the timeout; clear the task to be asked again.
    """

    def __init__(self, *, setup: FeedSetup | FeedOfForm, question: str, shown_by: str, **kwargs: Any) -> None:
        super().__init__(
            subject=f"{setup.title}: {question}",
            body="{{ ti.xcom_pull(task_ids='" + shown_by + "')['text'] }}",
            response_timeout=timedelta(hours=12),
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


def ask_first(
    setup: FeedSetup | FeedOfForm, operation: Operation, *, show: str, approve: str, question: str
) -> AskOnceOperator:
    """Makes the tasks `show` and `approve`; returns the latter. If a person rejects, every later task is skipped."""
    approval = AskOnceOperator(task_id=approve, setup=setup, question=question, shown_by=show)
    Step(task_id=show, setup=setup, run=operation.show) >> approval
    return approval


def operation_tasks(
    setup: FeedSetup | FeedOfForm,
    operation: Operation,
    *,
    show: str,
    approve: str,
    question: str,
    resolve: str,
    before_load: Sequence[BaseOperator] = (),
    last: BaseOperator,
) -> None:
    """Makes all tasks of an operation, in the order of the parameters, each of which names a task or is one.

    Load, check, swap and commit come after `before_load`.
    """
    begin = Step(task_id=resolve, setup=setup, run=partial(operation.resolve, show_task=show))
    steps = load_to_commit(setup)
    approval = ask_first(setup, operation, show=show, approve=approve, question=question)
    chain(approval, begin, *before_load, steps.load)
    steps.commit >> last
    [begin, *before_load] >> steps.on_failure
