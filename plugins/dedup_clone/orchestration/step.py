"""The operator of all tasks of a feed: a step calls a function that may be repeated at any time, and may say "not yet".

The function gets a FeedRun. A step of one feed's DAG is made with that feed's setup, others with the feed of the form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import cached_property
from typing import Any, NoReturn

from airflow.providers.google.cloud.links.base import BaseGoogleLink
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import BaseOperator, Context
from airflow.sdk.bases.skipmixin import SkipMixin
from airflow.triggers.base import BaseTrigger

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.errors import ConfigurationError, ContractViolation
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup, open_feed_services
from dedup_clone.publish.services import Services

RETURN_VALUE = "return_value"  # the XCom key of a task's result


class NotYet(Exception):
    """Raised by a step's function that must wait. The step defers, and calls the function again when `trigger` fires.

    `trigger`: or the time after which the function is called again. A wait costs the task no try.
    """

    def __init__(self, reason: str, trigger: BaseTrigger | timedelta) -> None:
        super().__init__(f"waits: {reason}")
        self.trigger = TimeDeltaTrigger(trigger) if isinstance(trigger, timedelta) else trigger


class FeedRun:
    """A DAG run of a feed as one of its steps sees it.

    `event`: what the trigger that the step waited for has fired with; None if the step has not waited. `on_kill`:
    called if Airflow ends the process of the step; a function that starts work elsewhere sets it.
    """

    def __init__(self, setup: FeedSetup, context: Context, event: Any = None) -> None:
        self.setup = setup
        self.context = context
        self.event = event
        self.on_kill: Callable[[], None] = lambda: None

    @cached_property
    def services(self) -> Services:
        return open_feed_services(self.setup)

    @cached_property
    def attempt(self) -> Attempt:
        """The run's attempt. Raises ContractViolation if its record is gone, or if the run has none."""
        return self.services.manifests.attempt(self.attempt_id)

    @property
    def attempt_id(self) -> str:
        """The id of the run's attempt. Raises ContractViolation if the run has none."""
        found = self.find_attempt_id()
        if found is None:
            raise ContractViolation("This run has no attempt: clear the run from its first task.")
        return found

    def find_attempt_id(self) -> str | None:
        """The id of the attempt that a resolve task of the run returned; None if none has."""
        # The tasks that begin the attempt are called resolve_… in every DAG.
        tasks = [task_id for task_id in self.context["dag"].task_ids if task_id.startswith("resolve_")]
        return next((found for found in map(self.result_of, tasks) if isinstance(found, str)), None)

    @property
    def form(self) -> dict[str, Any]:
        """The filled form. Raises ConfigurationError for a field that the DAG's form lacks, which Airflow accepts."""
        filled, known = self.context["params"], self.context["dag"].params
        own = "airflow/"  # begins names that are for Airflow itself, such as airflow/task_span_detail_level
        if unknown := [name for name in filled if name not in known and not name.startswith(own)]:
            raise ConfigurationError(
                f"The form of [{self.dag_id}] has no field {unknown}, only {sorted(known)}: nothing was done. Correct "
                f"the name, and trigger the DAG again."
            )
        return filled

    @property
    def dag_id(self) -> str:
        return self.context["dag_run"].dag_id

    @property
    def run_id(self) -> str:
        return self.context["dag_run"].run_id

    @property
    def try_number(self) -> int:
        return self.context["ti"].try_number

    @property
    def timeout(self) -> timedelta | None:
        """How long the step may take."""
        return self.context["task"].execution_timeout

    def result_of(self, task_id: str) -> Any:
        """What another task of the run returned."""
        return self.context["ti"].xcom_pull(task_ids=task_id)

    def skip(self, task_ids: Iterable[str], result: Any = None) -> NoReturn:
        """Ends the step, with this result, and skips the tasks, by raising what Airflow takes as the order to do so."""
        # Airflow stores no result of a task that skips others.
        self.context["ti"].xcom_push(key=RETURN_VALUE, value=result)
        task: Any = self.context["task"]
        skip: Callable[..., NoReturn] = task.skip
        skip(self.context["ti"], [task.dag.get_task(task_id) for task_id in task_ids])

    def link(self, link: type[BaseGoogleLink], **values: Any) -> None:
        """Leads from the task's page to `link`, which must be one of the step's links."""
        link.persist(self.context, **values)


class Step(BaseOperator, SkipMixin):
    """Calls `run`, which can be repeated: after a retry, and after each trigger that it waited for.

    `links`: the kinds of links from the task's page that `run` may set.
    """

    inherits_from_skipmixin = True

    def __init__(
        self,
        *,
        setup: FeedSetup | FeedOfForm,
        run: Callable[[FeedRun], Any],
        links: Iterable[type[BaseGoogleLink]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.setup = setup
        self.run_step = run
        self.operator_extra_links = tuple(link() for link in links)
        self.feed_run: FeedRun | None = None

    def execute(self, context: Context, event: Any = None) -> Any:
        self.feed_run = FeedRun(self.setup.of(context), context, event)
        try:
            return self.run_step(self.feed_run)
        except NotYet as wait:
            self.log.info("%s", wait)
            self.defer(trigger=wait.trigger, method_name="execute")

    def on_kill(self) -> None:
        if self.feed_run:
            self.feed_run.on_kill()
