"""The tasks from load to commit, which publish, rollback, bootstrap, rebuild and erase share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from airflow.providers.common.compat.lineage.entities import File
from airflow.providers.google.cloud.links.bigquery import BigQueryJobDetailLink
from airflow.sdk import TriggerRule

from dedup_clone.checks.check_result import require_no_failure
from dedup_clone.orchestration.assets import emit_event, target_outlet
from dedup_clone.orchestration.jobs import load_staging, swap_target
from dedup_clone.orchestration.runners.dedup import stop_spark_runs
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup
from dedup_clone.orchestration.step import FeedRun, NotYet, Step
from dedup_clone.orchestration.watchdog.feed_check import refresh_verdict
from dedup_clone.publish.attempts import try_read
from dedup_clone.publish.check import check_before_swap, reason_to_wait
from dedup_clone.publish.commit import commit_attempt, prune
from dedup_clone.publish.recovery import commit_or_discard

STREAMED_ROWS_INTERVAL = timedelta(seconds=30)  # how often the streaming buffers are looked at


@dataclass(frozen=True)
class PublishSteps:
    """The first and the last task from load to commit, and the task that runs when one of them failed.

    A DAG puts its own tasks before `load` and after `commit`. Its tasks that acquire the lease, or run under it, also
    become upstream tasks of `on_failure`, so that the lease is released when one of them fails.
    """

    load: Step
    commit: Step
    on_failure: Step


def load_to_commit(setup: FeedSetup | FeedOfForm, *, inlets: Sequence[File] = ()) -> PublishSteps:
    """Makes the tasks from load to commit. `inlets`: what the rows come from, for lineage."""
    # -- load -------- in: manifest's files     runs: BigQuery  out: staging rows; deferred; safe to retry
    load = Step(task_id="load_staging", setup=setup, run=load_staging, links=[BigQueryJobDetailLink])

    # -- check ------- in: staging, manifest    runs: worker    out: parameters of the swap and check results, in state
    check = Step(task_id="check_staging", setup=setup, run=check_staging)

    # -- swap -------- in: staging as checked   runs: BigQuery  out: target, at one moment; deferred; safe to retry
    swap = Step(task_id="swap_target", setup=setup, run=swap_target, links=[BigQueryJobDetailLink])

    # -- commit ------ in: target               runs: worker    out: ledger record, CURRENT, Asset event
    commit = Step(
        task_id="commit_generation",
        setup=setup,
        run=commit_generation,
        inlets=[*inlets],
        outlets=[target_outlet(setup)],
    )

    # -- on failure -- in: lease, target        runs: worker    out: committed when the swap happened, else discarded
    on_failure = Step(
        task_id="reconcile_failure", setup=setup, run=reconcile_failure, trigger_rule=TriggerRule.ONE_FAILED
    )

    load >> check >> swap >> commit
    [load, check, swap, commit] >> on_failure
    return PublishSteps(load, commit, on_failure)


def check_staging(run: FeedRun) -> None:
    """Runs the checks before the swap, and stores its parameters. Fails if a check fails that is not accepted.

    Waits while staging or target has rows in a streaming buffer, and the freshness SLA leaves time.
    """
    if reason := reason_to_wait(run.services, run.attempt):
        raise NotYet(f"BigQuery has not flushed the streaming buffer: {reason}", STREAMED_ROWS_INTERVAL)
    check_before_swap(run.services, run.attempt)


def commit_generation(run: FeedRun) -> None:
    """Commits the attempt. Fails when a check after the swap failed; the generation is committed even then."""
    record, results_after = commit_attempt(run.services, run.attempt_id)
    emit_event(run, record)
    refresh_verdict(run.setup)
    require_no_failure(results_after, "Target holds the new generation, which is committed.")


def reconcile_failure(run: FeedRun) -> None:
    """Stops Spark. If the run holds the lease, commits its attempt or, if no swap happened, discards it."""
    services = run.services
    stop_spark_runs(run)  # Spark must not write files after the attempt's files are deleted
    current = services.current.read()
    intent = None if current.refusal(services.environment) else current.intent  # another one's run may have this id
    if intent is None or not intent.is_of(dag_id=run.dag_id, run_id=run.run_id):
        services.log("this run does not hold the lease: nothing to reconcile")
    else:
        commit_or_discard(services, intent)
    refresh_verdict(run.setup)


def prune_state(run: FeedRun) -> list[str]:
    """Prunes the feed's state; returns the deleted folders. A failure is only logged: a later run prunes the rest."""
    services = run.services
    return try_read(services, "nothing is pruned until the next publish", lambda: prune(services)) or []
