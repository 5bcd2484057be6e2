"""The dedup task for remote runners: attaches to a Spark run or starts one, waits deferred, and reports the outcome.

Each try starts a run of its own name, unless it finds an earlier try's run at work. A second run of an attempt is
harmless, because only one can create the candidate (docs/adr/0002), so nothing else is done to prevent one.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from datetime import timedelta
from typing import Any

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
from dedup_clone.orchestration.runners.spark_run import SparkJobSpec, SparkRun, SparkRunner, SparkRunState, run_name
from dedup_clone.orchestration.runners.spark_run_trigger import SparkRunTrigger
from dedup_clone.orchestration.runners.workload import read_workload
from dedup_clone.orchestration.task_runtime import (
    find_attempt_id,
    open_feed_services,
    pull_attempt,
    pull_attempt_id,
)
from dedup_clone.publish.records.best_effort import best_effort
from dedup_clone.settings.spark_settings import Runner

DEFAULT_TIMEOUT = timedelta(hours=1)
# The service stops a run that no task watches so much later than the task would. Batches have at least ten minutes.
TTL_MARGIN_S = 600
MOST_RUNS = 4  # of an attempt that may fail, because machines can be lost
_LINKS: dict[Runner, type[BaseGoogleLink]] = {
    Runner.SERVERLESS: DataprocBatchLink,
    Runner.CLUSTER: DataprocJobLink,
    Runner.BIGQUERY_PROCEDURE: BigQueryJobDetailLink,
}


class RemoteSparkOperator(EngineDispatchMixin, BaseOperator):
    """The dedup task of every runner but the local one. `request_uri`: the attempt's URI, the job's argument."""

    template_fields = ("request_uri",)

    def __init__(self, *, request_uri: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request_uri = request_uri
        self.runner_config: RunnerConfig = runner_config_of(self.setup)
        self.link = _LINKS[runner_of(self.setup)]()
        self.operator_extra_links = (self.link,)
        self.run_name = ""

    def run_spark(self, context: Context) -> Any:
        """Returns the name of a run that has succeeded. Else defers until the run has ended or is too slow.

        Raises AirflowFailException if no retry can help.
        """
        runner = open_runner(self.runner_config)
        self._attach_or_submit(context, runner)
        return self._finish_or_defer(context, runner)

    def resume(self, context: Context, event: dict[str, Any]) -> Any:
        """Called after the trigger fired. Does what `run_spark` does with the run that the trigger waited for."""
        self.run_name = event["name"]
        name = self._finish_or_defer(context, open_runner(self.runner_config), is_too_slow=event["is_too_slow"])
        self.end_if_all_refused(context)
        return name

    def on_kill(self) -> None:
        """Cancels the Spark run. Called when somebody marks or clears the task, its time is up, or the worker stops."""
        if self.run_name:
            open_runner(self.runner_config).cancel(self.run_name)

    def _attach_or_submit(self, context: Context, runner: SparkRunner) -> None:
        """Attaches to an earlier try's run that is active or succeeded, else starts this try's own."""
        usable = (SparkRunState.ACTIVE, SparkRunState.SUCCEEDED)
        found = [run for run in self._earlier_runs(context, runner) if run.state in usable]
        if found:
            self.run_name = found[-1].name
            self.log.info("attaches to Spark run %s, which is %s", self.run_name, found[-1].state)
        else:
            self.run_name = self._own_name(context)
            runner.submit(self.run_name, self._job_spec(context))

    def _finish_or_defer(self, context: Context, runner: SparkRunner, *, is_too_slow: bool = False) -> Any:
        run = runner.get_run(self.run_name)
        if run is not None:
            self._show(context, run)
        if run is not None and run.state.is_finished:
            return self._finish(context, runner, run)
        if is_too_slow:
            runner.cancel(self.run_name)
            raise AirflowFailException(
                f"Spark was not done within {self._timeout_s / 60:.0f} minutes (stopped: {self.run_name}). Raise "
                f"[spark.max_executors] or lower [spark.target_minutes] in the feed, then clear the run."
            )
        if run is None:
            raise SparkUnavailable(f"Spark run [{self.run_name}] cannot be seen: the task tries again by itself.")
        self.defer(
            trigger=SparkRunTrigger(
                asdict(self.runner_config),
                self.run_name,
                poll_s=self.setup.deployment.job_poll_interval_s,
                timeout_at=time.time() + self._timeout_s,
            ),
            method_name="resume",
        )

    def _finish(self, context: Context, runner: SparkRunner, run: SparkRun) -> str:
        """Returns the name of a run that succeeded. Raises SparkRunFailed or AirflowFailException for any other run."""
        self._save_usage(context, run)
        if run.state is SparkRunState.SUCCEEDED:
            self.log.info("Spark run %s succeeded", run.name)
            return run.name
        reason = f"{run.message or 'no reason given'}. Its log: {run.log}"
        # A run of an earlier try may have been cancelled because that try was cleared.
        if run.state is SparkRunState.CANCELLED and run.name == self._own_name(context):
            raise AirflowFailException(
                f"Spark run [{run.name}] was cancelled from outside; nothing was published. Clear the run from its "
                f"first task to try again. Reason: {reason}"
            )
        earlier = self._earlier_runs(context, runner)
        failed = {run.name, *(each.name for each in earlier if each.state is SparkRunState.FAILED)}
        if len(failed) >= MOST_RUNS:
            raise AirflowFailException(
                f"Spark run [{run.name}] failed. [{len(failed)}] runs of this attempt have: remove the cause, then "
                f"clear the run from its first task. Reason: {reason}"
            )
        raise SparkRunFailed(f"Spark run [{run.name}] failed; the task tries again by itself. Reason: {reason}")

    def _own_name(self, context: Context) -> str:
        return run_name(self.setup.feed.feed, pull_attempt_id(context), context["ti"].try_number)

    def _earlier_runs(self, context: Context, runner: SparkRunner) -> list[SparkRun]:
        """The runs that earlier tries started, also those from before the task was cleared."""
        feed, attempt = self.setup.feed.feed, pull_attempt_id(context)
        runs = [runner.get_run(run_name(feed, attempt, number)) for number in range(1, context["ti"].try_number)]
        return [run for run in runs if run is not None]

    def _job_spec(self, context: Context) -> SparkJobSpec:
        feed, spark = self.setup.feed, self.setup.deployment.spark
        code = read_spark_code(self.setup.folders.spark_code)
        services = open_feed_services(self.setup)
        attempt = pull_attempt(context, services)
        size = size_run(read_workload(services, attempt.id), feed.spark, runner_of(self.setup))
        sla, is_late = feed.freshness.sla_minutes, size.expected_minutes > feed.freshness.sla_minutes
        warning = f"; the job alone takes longer than [freshness.sla_minutes], which is {sla}" if is_late else ""
        services.log(
            f"Spark gets {size.summary}{warning}",
            snapshot_id=attempt.snapshot_id,
            generation=attempt.generation,
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
                "dedup_clone_attempt": attempt.id,
            },
            ttl_s=int(self._timeout_s) + TTL_MARGIN_S,
        )

    def _save_usage(self, context: Context, run: SparkRun) -> None:
        """Stores what the run used, and adds what the attempt's earlier runs did; its ledger record prices it."""
        services, attempt = open_feed_services(self.setup), pull_attempt_id(context)
        prices, name = self.setup.deployment.spark, services.layout.spark_usage(attempt)
        with best_effort(services, f"the cost of Spark run [{run.name}] is missing in the ledger"):
            size = size_run(read_workload(services, attempt), self.setup.feed.spark, runner_of(self.setup))
            vcpus = size.cores + self.setup.feed.spark.driver_cores
            usage = SparkUsage(
                run.name, run.dcu_hours, vcpus, prices.usd_per_dcu_hour, prices.usd_per_vcpu_hour, run.lasted_s
            )
            earlier = services.store.read_record(SparkUsage, name)
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


def stop_spark_runs(task: Any, context: Context) -> None:
    """Cancels all Spark runs that the tries of `task` can have started.

    Does nothing if `task` is None or a task of the local runner, or if the DAG run has no attempt.
    """
    if not isinstance(task, RemoteSparkOperator) or (attempt := find_attempt_id(context)) is None:
        return
    runner = open_runner(task.runner_config)
    # Airflow counts tries on when a task is cleared, and gives it as many again.
    tries = ((task.retries or 0) + 1) * ((context["dag_run"].clear_number or 0) + 1)
    for number in range(1, tries + 1):
        runner.cancel(run_name(task.setup.feed.feed, attempt, number))
