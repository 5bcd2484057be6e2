"""The dedup step: makes the attempt's candidate, with BigQuery jobs for an SQL engine, else with Spark.

For Spark it attaches to a run or starts one, waits, and reports the outcome. Each try starts a run of its own name,
unless it finds an earlier try's run at work. A second run of an attempt is harmless, because only one can create the
candidate (docs/adr/0002-candidate-is-the-commit-point.md), so nothing else is done to prevent one.
"""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.google.cloud.links.bigquery import BigQueryJobDetailLink
from airflow.providers.google.cloud.links.dataproc import DataprocBatchLink, DataprocJobLink
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.errors import ConfigurationError, SparkRunFailed, SparkUnavailable
from dedup_clone.contract.records import to_json
from dedup_clone.engines.dedup_in_bigquery import dedup_in_bigquery
from dedup_clone.orchestration.runners.local import run_local_spark
from dedup_clone.orchestration.runners.open_runner import SparkRunTrigger, open_runner, runner_arguments
from dedup_clone.orchestration.runners.sizing import Workload, describe_size, read_workload, size_run, spark_properties
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec, SparkRun, SparkRunner, SparkRunState, run_name
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup
from dedup_clone.orchestration.step import FeedRun, NotYet, Step
from dedup_clone.publish.attempt_jobs import job_labels
from dedup_clone.publish.attempts import best_effort
from dedup_clone.publish.held_deliveries import is_reused
from dedup_clone.publish.recovery import end_if_all_refused
from dedup_clone.settings.spark_settings import Runner

DEFAULT_TIMEOUT = timedelta(hours=1)
# A run that no task watches is ended so much later than the task would end it. Batches have at least ten minutes.
TTL_MARGIN_S = 600
_LINKS = {
    Runner.SERVERLESS: DataprocBatchLink,
    Runner.CLUSTER: DataprocJobLink,
    Runner.BIGQUERY_PROCEDURE: BigQueryJobDetailLink,
}


def dedup_step(setup: FeedSetup | FeedOfForm, task_id: str, **arguments: Any) -> Step:
    return Step(task_id=task_id, setup=setup, run=dedup, links=_LINKS.values(), **arguments)


def dedup(run: FeedRun) -> str:
    """Makes the candidate, unless an earlier attempt has. Returns the name of the Spark run, if there is one.

    Fails for good if every delivery was refused, or if the attempt has ended, as when only this task is cleared.
    """
    services, attempt = run.services, run.attempt
    services.current.require_intent(attempt.id)
    # If the attempt of an SQL engine fails, the object that is written here tells the watch DAG that the attempt may
    # have read rows (watch/publish_runs.py).
    services.store.create(services.layout.dedup_started(attempt.id), "")
    name = ""
    if is_reused(services, attempt.id):
        services.log("an earlier attempt has deduplicated the same: nothing is left to do")
    elif not attempt.engine.runs_spark:
        dedup_in_bigquery(services, attempt.id)
    elif run.setup.runner is Runner.LOCAL:
        run_local_spark(run)
    else:
        name = _run_spark(run, open_runner(**runner_arguments(run.setup)))
    end_if_all_refused(services, attempt.id)
    return name


def stop_spark_runs(run: FeedRun) -> None:
    """Cancels all Spark runs that the tries of the dedup step can have started."""
    if run.setup.runner is Runner.LOCAL or run.find_attempt_id() is None:
        return
    # The record is gone if another run has discarded the attempt. Its Spark run may still be at work.
    attempt = run.services.manifests.find_attempt(run.attempt_id)
    if attempt is not None and (attempt.restores is not None or not attempt.engine.runs_spark):
        return
    runner, task = open_runner(**runner_arguments(run.setup)), run.context["task"]
    # All tasks have as many retries. Airflow counts tries on when a task is cleared, and gives it as many again.
    tries = ((task.retries or 0) + 1) * ((run.context["dag_run"].clear_number or 0) + 1)
    for number in range(1, tries + 1):
        runner.cancel(_name(run, number))


def _run_spark(run: FeedRun, runner: SparkRunner) -> str:
    """Returns the name of a run that has succeeded. Raises NotYet until the run has ended or is too slow.

    Raises AirflowFailException if no retry can help.
    """
    if run.event:
        name, timeout_at = run.event["name"], run.event["timeout_at"]
    else:
        workload = read_workload(run.services, run.attempt_id)
        name, began_at = _attach_or_start(run, runner, workload)
        timeout_at = began_at + _timeout_s(run, workload)
    run.on_kill = lambda: runner.cancel(name)
    found = runner.get_run(name)
    if found is None:
        raise SparkUnavailable(f"Spark run [{name}] cannot be seen: the task tries again by itself.")
    _show(run, found)
    if found.state.is_finished:
        return _finish(run, found)
    if time.time() >= timeout_at:
        runner.cancel(name)
        raise AirflowFailException(
            f"Spark was not done by {datetime.fromtimestamp(timeout_at, UTC):%H:%M} UTC (stopped: {name}). Raise "
            f"[spark.max_executors] or lower [spark.target_minutes] in the feed, then clear the run."
        )
    trigger = SparkRunTrigger(
        runner_arguments(run.setup),
        name,
        poll_s=run.setup.deployment.job_poll_interval_s,
        timeout_at=timeout_at,
    )
    raise NotYet(f"Spark run {name} is at work", trigger)


def _attach_or_start(run: FeedRun, runner: SparkRunner, workload: Workload) -> tuple[str, float]:
    """The name of an earlier try's run that is active or succeeded, else of this try's own, which is started.

    Also returns when the run began, in seconds since 1970: its time limit in the service counts from then on. Raises
    LeaseLost instead of starting a run if the attempt has ended.
    """
    for number in range(run.try_number - 1, 0, -1):
        found = runner.get_run(_name(run, number))
        if found and found.state in (SparkRunState.ACTIVE, SparkRunState.SUCCEEDED):
            run.services.log(f"attaches to Spark run {found.name}, which is {found.state}")
            return found.name, found.created_at.timestamp() if found.created_at else time.time()
    run.services.current.require_intent(run.attempt_id)  # else the run would cost, and be of no use
    name = _name(run, run.try_number)
    run.on_kill = lambda: runner.cancel(name)
    runner.submit(name, _job_spec(run, workload))
    return name, time.time()


def _finish(run: FeedRun, ended: SparkRun) -> str:
    """Returns the name of a run that succeeded. Raises SparkRunFailed or AirflowFailException for any other run."""
    _save_usage(run, ended)
    if ended.state is SparkRunState.SUCCEEDED:
        run.services.log(f"Spark run {ended.name} succeeded")
        return ended.name
    reason = f"{ended.message or 'no reason given'}. The link to the run on this task's page leads to its log."
    # A run of an earlier try may have been cancelled because that try was cleared.
    if ended.state is SparkRunState.CANCELLED and ended.name == _name(run, run.try_number):
        raise AirflowFailException(
            f"Spark run [{ended.name}] was cancelled from outside; nothing was published. Clear the run from its "
            f"first task to try again. Reason: {reason}"
        )
    raise SparkRunFailed(
        f"Spark run [{ended.name}] failed. If the task is not tried again, remove the cause, then clear the run from "
        f"its first task. Reason: {reason}"
    )


def _name(run: FeedRun, try_number: int) -> str:
    return run_name(run.setup.feed.feed, run.attempt_id, try_number)


def _job_spec(run: FeedRun, workload: Workload) -> SparkJobSpec:
    services, attempt, feed, spark = run.services, run.attempt, run.setup.feed, run.setup.deployment.spark
    main_uri, archive_uri = _spark_code(run.setup.folders.spark_code)
    size = size_run(workload, feed.spark)
    sla, is_late = feed.freshness.sla_minutes, size.expected_minutes > feed.freshness.sla_minutes
    warning = f"; the job alone takes longer than [freshness.sla_minutes], which is {sla}" if is_late else ""
    services.log(
        f"Spark gets {describe_size(size, workload, feed.spark)}{warning}",
        snapshot_id=attempt.snapshot_id,
        generation=attempt.generation,
        level=logging.WARNING if is_late else logging.INFO,
    )
    return SparkJobSpec(
        request_uri=attempt.uri,
        main_uri=main_uri,
        archive_uri=archive_uri,
        properties=spark_properties(size, feed.spark),
        labels={**spark.labels, **job_labels(services, "dedup")},
        ttl_s=int(_timeout_s(run, workload)) + TTL_MARGIN_S,
    )


def _spark_code(file: Path) -> tuple[str, str]:
    """URIs of the job's main file and of the zip file of its modules. Each name has a digest of the file's content.

    `make deploy` writes `file` beside the DAGs, so that code and DAGs change together.
    """
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
        return plain["main"], plain["archive"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"[{file}], which names the deployed Spark code, is missing or not as the deployment writes it: run `make "
            f"deploy`, then clear the run."
        ) from error


def _save_usage(run: FeedRun, ended: SparkRun) -> None:
    """Stores what the run cost, beside the attempt's earlier runs, for the ledger record."""
    services, name = run.services, run.services.layout.spark_usage(run.attempt_id)
    with best_effort(services, f"the cost of Spark run [{ended.name}] is missing in the ledger"):
        usd = _usd(run, ended)
        if usd is not None:
            earlier = services.store.read_record(dict[str, float], name) or {}
            services.store.put(name, to_json({**earlier, ended.name: usd}))


def _usd(run: FeedRun, ended: SparkRun) -> float | None:
    """The price of the run; None if the service does not tell what it used, or the profile has no price of that."""
    prices = run.setup.deployment.spark
    if ended.dcu_hours is not None:
        return ended.dcu_hours * prices.usd_per_dcu_hour
    if ended.lasted_s is None or prices.usd_per_vcpu_hour is None:
        return None
    size = size_run(read_workload(run.services, run.attempt_id), run.setup.feed.spark)
    return size.vcpus * ended.lasted_s / 3600 * prices.usd_per_vcpu_hour


def _show(run: FeedRun, found: SparkRun) -> None:
    """Links the task's page to the run."""
    deployment = run.setup.deployment
    values: dict[str, Any] = {  # each link takes what it needs
        "project_id": deployment.project,
        "region": deployment.spark.region,
        "location": deployment.location,
        "batch_id": found.name,
        "job_id": found.name,
    }
    run.link(_LINKS[run.setup.runner], **values)


def _timeout_s(run: FeedRun, workload: Workload) -> float:
    """How long the Spark run may take: as long as the DAG's other tasks, and three times as long as it should."""
    size = size_run(workload, run.setup.feed.spark)
    return max((run.timeout or DEFAULT_TIMEOUT).total_seconds(), 3 * 60 * size.expected_minutes)
