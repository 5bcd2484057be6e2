"""What the DAGs that change a feed share: their arguments, and the tasks from load to commit.

All of them have these arguments; publish, bootstrap, erase, rebuild and rollback have these tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.providers.standard.exceptions import HITLRejectException
from airflow.providers.standard.triggers.temporal import TimeDeltaTrigger
from airflow.sdk import Asset, BaseOperator, Context, TriggerRule, XComArg, task
from airflow.sdk.bases.skipmixin import SkipMixin
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.checks.check_result import require_no_failure
from dedup_clone.contract.records import to_plain
from dedup_clone.orchestration.forms import AskOnceOperator
from dedup_clone.orchestration.jobs import AttemptJobOperator, LoadStagingOperator, swap_configuration
from dedup_clone.orchestration.retries import retry_arguments
from dedup_clone.orchestration.runners.remote_operator import stop_spark_runs
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.orchestration.target_asset import event_extra, target_asset
from dedup_clone.orchestration.task_runtime import (
    open_feed_services,
    pull_attempt,
    pull_attempt_id,
    push_result,
)
from dedup_clone.orchestration.watchdog.feed_check import refresh_verdict
from dedup_clone.publish.approval import approval_text, end_approval_wait
from dedup_clone.publish.check import check_before_swap, reason_to_wait
from dedup_clone.publish.commit import commit_attempt
from dedup_clone.publish.prune import prune
from dedup_clone.publish.records.attempt_records import find_check_results
from dedup_clone.publish.records.best_effort import best_effort, try_read
from dedup_clone.publish.recovery import commit_or_discard

CHECK_TASK, APPROVE_TASK = "check_staging", "approve_accepted"
STREAMED_ROWS_INTERVAL = timedelta(seconds=30)  # how often the streaming buffers are looked at
EVIDENCE = "evidence"  # XCom key of a Markdown text that shows the failed checks to the person who approves


def feed_dag_arguments(setup: FeedSetup, *, task_timeout: timedelta = timedelta(hours=1)) -> dict[str, Any]:
    """Arguments of a DAG that changes a feed: where its SQL templates are, and how its tasks are retried.

    `task_timeout`: the execution_timeout of each task; for a dedup task it also limits the time of the Spark run.
    """
    return {
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "auto_register": False,  # see build_dags
        "is_paused_upon_creation": False,
        "template_searchpath": [str(setup.folders.sql)],
        "user_defined_macros": {"names": setup.names, "options": setup.feed.table.options.to_contract()},
        "default_args": {
            "owner": setup.feed.owner,
            **retry_arguments(timedelta(minutes=setup.feed.freshness.sla_minutes)),
            "execution_timeout": task_timeout,
        },
    }


@dataclass(frozen=True)
class PublishSteps:
    """The first and the last task from load to commit, and the task that runs when one of them failed.

    A DAG puts its own tasks before `load` and after `commit`. Its tasks that acquire the lease, or run under it, also
    become upstream tasks of `on_failure`, so that the lease is released when one of them fails.
    """

    load: BaseOperator
    commit: XComArg
    on_failure: XComArg


def load_to_commit(
    setup: FeedSetup,
    *,
    load_operator: type[LoadStagingOperator] = LoadStagingOperator,
    swap_operator: type[AttemptJobOperator] = AttemptJobOperator,
    with_approval: bool = False,
    spark_task: BaseOperator | None = None,
) -> PublishSteps:
    """Makes the tasks from load to commit, which are numbered here as in the publish DAG.

    `with_approval`: whether the run waits for a person if an accepted check failed. `spark_task`: the dedup task;
    `reconcile_failure` stops its Spark runs.
    """
    target = target_asset(setup)

    # -- 3 load ------ in: manifest's files     runs: BigQuery  out: staging rows; deferred; safe to retry
    load = load_operator(task_id="load_staging", setup=setup)

    # -- 4 check ----- in: staging, manifest    runs: worker    out: parameters of the swap; check results in state
    check = CheckStagingOperator(task_id=CHECK_TASK, setup=setup, approve_task=APPROVE_TASK if with_approval else None)

    # -- 5 approve --- in: accepted failures    runs: a person  out: approved; skipped when no accepted check failed
    if with_approval:
        approve = ApproveAcceptedOperator(
            task_id=APPROVE_TASK,
            setup=setup,
            check_task=CHECK_TASK,
            subject=f"Publish {setup.feed.feed} although checks failed?",
            response_timeout=timedelta(hours=1),
            retry_delay=timedelta(seconds=1),
        )

    # -- 6 swap ------ in: staging as checked   runs: BigQuery  out: target, in one statement; deferred; safe to retry
    swap = swap_operator(
        task_id="swap_target",
        # The approval is often skipped, so the swap requires one upstream success and no upstream failure.
        trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS if with_approval else TriggerRule.ALL_SUCCESS,
        setup=setup,
        step="swap",
        configuration=swap_configuration(setup.feed.feed, setup.names.target_table),
    )

    # -- 7 commit ---- in: target               runs: worker    out: ledger record, CURRENT, Asset event
    @task(outlets=[target])
    def commit_generation(**context: Any) -> dict[str, Any]:
        return _commit_generation(setup, context, target)

    # -- on failure -- in: lease, target        runs: worker    out: committed when the swap happened, else discarded
    @task(trigger_rule=TriggerRule.ONE_FAILED)
    def reconcile_failure(**context: Any) -> None:
        _reconcile_failure(setup, context, spark_task)

    commit, on_failure = commit_generation(), reconcile_failure()
    load >> check >> swap >> commit
    [load, check, swap, commit] >> on_failure
    if with_approval:
        check >> approve >> [swap, on_failure]
    return PublishSteps(load, commit, on_failure)


def delete_unneeded_data(setup: FeedSetup) -> list[str]:
    """Prunes the feed's state; returns the deleted folders. A failure is only logged: a later run prunes the rest."""
    services = open_feed_services(setup)
    return try_read(services, "nothing is pruned until the next publish", lambda: prune(services)) or []


def _commit_generation(setup: FeedSetup, context: Any, target: Asset) -> dict[str, Any]:
    """Commits the attempt and returns its ledger record, which the Asset event summarizes.

    Fails when a check after the swap failed; the generation is committed even then.
    """
    services = open_feed_services(setup)
    record, results_after = commit_attempt(services, pull_attempt_id(context))
    with best_effort(services, "the Asset event does not say what was published"):
        results_before = find_check_results(services, record.attempt, "before")
        results = [results_after] if results_before is None else [results_before, results_after]
        context["outlet_events"][target].extra = event_extra(setup, record, results)
    refresh_verdict(setup)
    require_no_failure(results_after, "Target holds the new generation, which is committed.")
    return to_plain(record)  # type: ignore[no-any-return]


def _reconcile_failure(setup: FeedSetup, context: Any, spark_task: BaseOperator | None) -> None:
    """Stops Spark. If the run holds the lease, commits its attempt or, if no swap happened, discards it."""
    services, run = open_feed_services(setup), context["dag_run"]
    stop_spark_runs(spark_task, context)  # Spark must not write files after the attempt's files are deleted
    current = services.current.read()
    intent = None if current.refusal(services.environment) else current.intent  # another one's run may have this id
    if intent is None or not intent.is_of(dag_id=run.dag_id, run_id=run.run_id):
        services.log("this run does not hold the lease: nothing to reconcile")
    else:
        commit_or_discard(services, intent)
    refresh_verdict(setup)


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
        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        if reason := reason_to_wait(services, attempt):
            self.log.info("waits until BigQuery has flushed the streaming buffer: %s", reason)
            self.defer(trigger=TimeDeltaTrigger(STREAMED_ROWS_INTERVAL), method_name="resume_after_interval")
        swap: dict[str, Any] = to_plain(check_before_swap(services, attempt))
        if self.approve_task is not None:
            evidence = approval_text(services, attempt)
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
        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        # If an earlier try asked already, another run may have taken the lease over: no further retry helps then.
        services.current.require_intent(attempt.id)
        services.current.begin_approval_wait(attempt.id)
        refresh_verdict(self.setup)  # which says that the run waits
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException as error:
            raise AirflowFailException(str(error)) from error
        services = open_feed_services(self.setup)
        end_approval_wait(services, pull_attempt(context, services))
        return answer
