"""The dedup task for remote runners: attaches to a Spark run or starts one, waits deferred, and reports the outcome.

A retried task attaches to the active run, reuses a run that succeeded, and starts the next run after a failure. A
cleared task stops the runs from before the clear, then runs Spark again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from datetime import timedelta
from typing import Any, NoReturn

from airflow.providers.google.cloud.links.base import BaseGoogleLink
from airflow.providers.google.cloud.links.bigquery import BigQueryJobDetailLink
from airflow.providers.google.cloud.links.dataproc import DataprocBatchLink, DataprocJobLink
from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.errors import SparkRunFailed, SparkUnavailable
from dedup_clone.contract.records import to_json
from dedup_clone.contract.spark_usage import SparkUsage
from dedup_clone.orchestration.runners.engine_dispatch import EngineDispatchMixin
from dedup_clone.orchestration.runners.runner_config import (
    RunnerConfig,
    open_runner,
    read_spark_code,
    runner_config_of,
    runner_of,
)
from dedup_clone.orchestration.runners.sizing import size_run, spark_properties
from dedup_clone.orchestration.runners.spark_run import (
    MAX_FAILED_RUNS,
    RunNames,
    SparkJobSpec,
    SparkRun,
    SparkRunner,
    SparkRunState,
    run_number,
    select_run,
    stop_runs,
)
from dedup_clone.orchestration.runners.spark_run_trigger import TIMED_OUT, SparkRunTrigger
from dedup_clone.orchestration.runners.workload import read_workload
from dedup_clone.orchestration.shared.task_runtime import (
    fail_without_retry,
    has_spec,
    open_feed_services,
    pull_spec,
)
from dedup_clone.publish.records.best_effort import best_effort
from dedup_clone.settings.spark_settings import Runner

DEFAULT_TIMEOUT = timedelta(hours=1)
# After a failure Spark is started again, because machines can be lost. If this many runs have failed since the last
# clear, the task fails for good.
MOST_RUNS = 4
_LINKS: dict[Runner, type[BaseGoogleLink]] = {
    Runner.SERVERLESS: DataprocBatchLink,
    Runner.CLUSTER: DataprocJobLink,
    Runner.BIGQUERY_PROCEDURE: BigQueryJobDetailLink,
}


class RemoteSparkOperator(EngineDispatchMixin, BaseOperator):
    """The dedup task of every runner but the local one. `request_uri`: the dedup request's URI, the job's argument."""

    template_fields = ("request_uri",)

    def __init__(self, *, request_uri: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request_uri = request_uri
        self.runner_config: RunnerConfig = runner_config_of(self.setup)
        self.link = _LINKS[runner_of(self.setup)]()
        self.operator_extra_links = (self.link,)
        self.run_name: str | None = None

    def run_spark(self, context: Context) -> Any:
        """Returns the name of a run that has succeeded. Else defers until the run has ended or is too slow.

        Raises AirflowFailException if no retry can help.
        """
        with fail_without_retry():
            runner, names = open_runner(self.runner_config), run_names(self.setup.feed.feed, context)
            for earlier in names.before_clears():
                for name in stop_runs(runner, earlier, max_tries(self)):
                    self.log.info("stopped Spark run %s, from before the task was cleared", name)
            return self._attach_or_submit(context, runner, names)

    def resume(self, context: Context, event: dict[str, str]) -> Any:
        """Called after the trigger fired: ends with the finished run, attaches to the run again, or submits its job.

        If the run takes too long, stops it and fails.
        """
        name = self._resume(context, event)
        self.end_if_all_refused(context)
        return name

    def _resume(self, context: Context, event: dict[str, str]) -> Any:
        with fail_without_retry():
            runner, names = open_runner(self.runner_config), run_names(self.setup.feed.feed, context)
            run = runner.get_run(event["name"])
            # The run may have succeeded between the trigger's last poll and now, when a worker is free for the task.
            has_succeeded = run is not None and run.state is SparkRunState.SUCCEEDED
            if event["reason"] == TIMED_OUT and not has_succeeded:
                stopped = ", ".join(stop_runs(runner, names, max_tries(self))) or "none was active"
                self._fail_as_too_slow(f"stopped: {stopped}")
            if run is not None and run.state.is_finished:
                return self._finish(context, runner, run)
            return self._attach_or_submit(context, runner, names)

    def on_kill(self) -> None:
        """Cancels the Spark run. Called when somebody marks or clears the task, its time is up, or the worker stops."""
        if self.run_name is not None:
            open_runner(self.runner_config).cancel(self.run_name)

    def _attach_or_submit(self, context: Context, runner: SparkRunner, names: RunNames) -> Any:
        """Attaches to the attempt's run, or submits one.

        If the run has finished, returns or raises as `_finish` does; else defers.
        """
        selected = select_run(runner, names, min(context["ti"].try_number, max_tries(self)))
        if selected is None:
            last = names.name(MAX_FAILED_RUNS)
            raise AirflowFailException(
                f"{MAX_FAILED_RUNS} Spark runs of this attempt failed, the last is [{last}]: remove the cause that its "
                f"log names, then clear the run from its first task."
            )
        self.run_name, run = selected.name, selected.run
        if run is None:
            runner.submit(selected.name, self._job_spec(context))
            run = runner.get_run(selected.name)
        else:
            self.log.info("attaches to Spark run %s, which is %s", selected.name, run.state)
        if run is None:
            raise SparkUnavailable(f"Spark run [{selected.name}] cannot be seen yet: the task tries again by itself.")
        if run.state.is_finished:
            return self._finish(context, runner, run)
        self._show(context, run)
        self.defer(
            trigger=SparkRunTrigger(
                asdict(self.runner_config),
                selected.name,
                poll_s=self.setup.deployment.job_poll_interval_s,
                timeout_at=time.time() + self._timeout_s,
            ),
            method_name="resume",
        )
        return None

    def _finish(self, context: Context, runner: SparkRunner, run: SparkRun) -> str:
        """Returns the name of a run that succeeded. Raises SparkRunFailed or AirflowFailException for any other run."""
        self._show(context, run)
        self._save_usage(context, run)
        if run.state is SparkRunState.SUCCEEDED:
            self.log.info("Spark run %s succeeded", run.name)
            return run.name
        if run.timed_out:
            self._fail_as_too_slow(f"Google stopped {run.name}. Its log: {run.log}")
        if run.state is SparkRunState.CANCELLED:
            raise AirflowFailException(
                f"Spark run [{run.name}] was cancelled from outside ({run.message or 'no reason given'}); nothing was "
                f"published. Clear the run from its first task to try again. Its log: {run.log}"
            )
        failure = f"Spark run [{run.name}] failed: {run.message or 'no reason given'}."
        if run_number(run.name) >= MOST_RUNS:
            raise AirflowFailException(
                f"{failure} [{run_number(run.name)}] runs of this attempt have failed: remove the cause that the log "
                f"names, then clear the run from its first task. Its log: {run.log}"
            )
        advice = "The task tries again by itself; the log's last line says what to correct."
        raise SparkRunFailed(f"{failure} {advice} Its log: {run.log}")

    def _fail_as_too_slow(self, stopped: str) -> NoReturn:
        """Fails the task without a retry. `stopped`: text that says which runs were stopped, if any."""
        raise AirflowFailException(
            f"Spark was not done within {self._timeout_s / 60:.0f} minutes ({stopped}). Raise [spark.max_executors] or "
            f"lower [spark.target_minutes] in the feed, then clear the run."
        )

    def _job_spec(self, context: Context) -> SparkJobSpec:
        spec, feed, spark = pull_spec(context), self.setup.feed, self.setup.deployment.spark
        code = read_spark_code(self.setup.folders.spark_code)
        services = open_feed_services(self.setup)
        size = size_run(read_workload(services, spec.attempt), feed.spark, runner_of(self.setup))
        sla, is_late = feed.freshness.sla_minutes, size.expected_minutes > feed.freshness.sla_minutes
        warning = f"; the job alone takes longer than [freshness.sla_minutes], which is {sla}" if is_late else ""
        services.log(
            f"Spark gets {size.summary}{warning}",
            snapshot_id=spec.snapshot_id,
            generation=spec.generation,
            level=logging.WARNING if is_late else logging.INFO,
        )
        return SparkJobSpec(
            request_uri=self.request_uri,
            main_uri=code.main_uri,
            archive_uri=code.archive_uri,
            properties=spark_properties(size, feed.spark),
            labels={
                **spark.labels,
                "dedup_clone_feed": feed.feed,
                "dedup_clone_step": "dedup",
                "dedup_clone_attempt": spec.attempt,
            },
            timeout_s=int(self._timeout_s),
        )

    def _save_usage(self, context: Context, run: SparkRun) -> None:
        """Stores what the run used, and adds what the attempt's earlier runs did; its ledger record prices it."""
        services, attempt = open_feed_services(self.setup), pull_spec(context).attempt
        prices, name = self.setup.deployment.spark, services.layout.spark_usage(attempt)
        with best_effort(services, f"the cost of Spark run [{run.name}] is missing in the ledger"):
            size = size_run(read_workload(services, attempt), self.setup.feed.spark, runner_of(self.setup))
            vcpus = size.cores + self.setup.feed.spark.driver_cores
            usage = SparkUsage(
                run.name, run.dcu_hours, vcpus, prices.usd_per_dcu_hour, prices.usd_per_vcpu_hour, run.lasted_s
            )
            earlier = services.store.read_if_sound(SparkUsage, name)
            services.store.put(name, to_json(usage.after(earlier)))

    def _show(self, context: Context, run: SparkRun) -> None:
        """Links the task's page to the run, and logs where the run's log is."""
        config, region = self.runner_config, self.setup.deployment.spark.region
        self.link.persist(  # each link takes what it needs
            context,
            project_id=config.project,
            region=region,
            location=config.location,
            batch_id=run.name,
            job_id=run.name,
        )
        self.log.info("the log of Spark run %s: %s", run.name, run.log)

    @property
    def _timeout_s(self) -> float:
        return (self.execution_timeout or DEFAULT_TIMEOUT).total_seconds()


def run_names(feed: str, context: Context) -> RunNames:
    """The names of this attempt's runs since the DAG run was last cleared."""
    return RunNames(feed, pull_spec(context).attempt, getattr(context["dag_run"], "clear_number", None) or 0)


def max_tries(task: Any) -> int:
    """The number of Spark runs that a task can start between two clears: one per try."""
    return int(task.retries) + 1


def stop_spark_runs(task: Any, context: Context) -> list[str]:
    """Stops all runs of `task`. Returns the names of the runs it stopped.

    Does nothing if `task` is None or a task of the local runner, or if the DAG run has no publish spec.
    """
    if not isinstance(task, RemoteSparkOperator) or not has_spec(context):
        return []
    runner, names = open_runner(task.runner_config), run_names(task.setup.feed.feed, context)
    return [name for each in (*names.before_clears(), names) for name in stop_runs(runner, each, max_tries(task))]
