"""The dedup task where Spark runs elsewhere: finds its run or makes one, waits deferred, says how it ended.

A retried task attaches to the run that is at work, reuses the one that ended well, and takes the next name after a
failed one. A cleared task stops what is left from before and runs Spark again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from airflow.sdk import BaseOperator, Context
from airflow.sdk.exceptions import AirflowFailException

from dedup_clone.contract.errors import SparkRunFailed, SparkUnavailable
from dedup_clone.orchestration.by_engine import ByEngine
from dedup_clone.orchestration.connect import connect
from dedup_clone.orchestration.final_errors import failing_at_once
from dedup_clone.orchestration.order_xcom import has_order, pull_order
from dedup_clone.orchestration.runners.advice import Adviser
from dedup_clone.orchestration.runners.links import LINKS
from dedup_clone.orchestration.runners.place import SparkPlace, open_service, place_of, runner_of
from dedup_clone.orchestration.runners.sizing import size_run, spark_properties
from dedup_clone.orchestration.runners.spark_code import read_spark_code
from dedup_clone.orchestration.runners.spark_run import (
    FAILED_RUNS_TOLERATED,
    RunNames,
    RunState,
    SparkOrder,
    SparkRun,
    SparkService,
    find_run,
    stop_runs,
)
from dedup_clone.orchestration.runners.waiting import TIME_IS_UP, UNREACHABLE, SparkRunTrigger
from dedup_clone.orchestration.runners.workload import read_workload

DEFAULT_LIMIT = timedelta(hours=1)


class RemoteSparkOperator(ByEngine, BaseOperator):
    """One task for all runners but the local one. `request_uri` is what the job is told."""

    template_fields = ("request_uri",)
    operator_extra_links = LINKS

    def __init__(self, *, request_uri: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.request_uri = request_uri
        self.place: SparkPlace = place_of(self.setup)
        self.addresses: Mapping[str, str] = {}
        self.run_name: str | None = None

    def run_spark(self, context: Context) -> Any:
        """Raises SparkUnavailable and SparkRunFailed, which a retry may mend, else fails at once."""
        with failing_at_once():
            names = run_names(self.setup.feed.feed, context)
            service = self._service()
            for earlier in names.earlier():
                for name in stop_runs(service, earlier, tries_of(self)):
                    self.log.info("stopped Spark run %s, from before the task was cleared", name)
            return self._go_on(context, service, names)

    def resume(self, context: Context, event: dict[str, str]) -> Any:
        """The trigger fired: look again, whatever it saw."""
        with failing_at_once():
            service, names = self._service(), run_names(self.setup.feed.feed, context)
            if event["why"] == UNREACHABLE:
                raise SparkUnavailable(event["message"])
            if event["why"] == TIME_IS_UP:
                stopped = ", ".join(stop_runs(service, names, tries_of(self))) or "none was at work"
                raise AirflowFailException(
                    f"Spark was not done within {self._limit_s / 60:.0f} minutes (stopped: {stopped}). Raise "
                    f"[spark.max_executors] or lower [spark.target_minutes] in the feed, then clear the run."
                )
            return self._go_on(context, service, names, waited_for=event["name"])

    def on_kill(self) -> None:
        """The task is marked or cleared while a worker is at it."""
        if self.run_name is not None:
            self._service().cancel(self.run_name)

    def _go_on(self, context: Context, service: SparkService, names: RunNames, waited_for: str | None = None) -> Any:
        run = service.look(waited_for) if waited_for else None
        if run is not None and run.state.is_over:
            return self._end(context, service, run)
        found = find_run(service, names, min(context["ti"].try_number, tries_of(self)))
        if found is None:
            last = names.name(FAILED_RUNS_TOLERATED)
            raise AirflowFailException(
                f"{FAILED_RUNS_TOLERATED} Spark runs of this attempt failed, the last is [{last}]: mend what its log "
                f"says, then clear the run from its first task."
            )
        for failed in found.failed:
            service.clean(failed.name)
        self.run_name, run = found.name, found.run
        if run is None or run.state is RunState.READY:
            service.submit(found.name, self._order(context))
            run = service.look(found.name)
        else:
            self.log.info("Spark run %s is there already (%s): uses it", found.name, run.state)
        if run is None:
            raise SparkUnavailable(f"Spark run [{found.name}] is not to be seen yet: the task tries again by itself.")
        if run.state.is_over:
            return self._end(context, service, run)
        self._show(context, run)
        self.defer(
            trigger=SparkRunTrigger(
                self.place.plain(),
                found.name,
                poll_s=self.setup.deployment.job_poll_interval_s,
                until=time.time() + self._limit_s,
            ),
            method_name="resume",
        )
        return None

    def _end(self, context: Context, service: SparkService, run: SparkRun) -> str:
        self._show(context, run)
        service.clean(run.name)
        if run.state is RunState.ENDED_WELL:
            self.log.info("Spark run %s ended well", run.name)
            return run.name
        log = run.addresses.get("log") or run.addresses.get("run", "the console")
        if run.state is RunState.CANCELLED:
            raise AirflowFailException(
                f"Spark run [{run.name}] was cancelled from outside ({run.message or 'no reason given'}); nothing was "
                f"published. Clear the task to run it again. Its log: {log}"
            )
        settings = self.setup.deployment.spark
        advice = Adviser(self.place.project, settings).on(run.message)
        what = f"Spark run [{run.name}] failed: {run.message or 'no reason given'}."
        if advice is not None and advice.final:
            raise AirflowFailException(f"{what} {advice.text} Its log: {log}")
        then = advice.text if advice else "The task tries again by itself; the log's last line says what to mend."
        raise SparkRunFailed(f"{what} {then} Its log: {log}")

    def _order(self, context: Context) -> SparkOrder:
        order, feed, spark = pull_order(context), self.setup.feed, self.setup.deployment.spark
        code = read_spark_code(self.setup.folders.spark_code)
        services = connect(self.setup)
        size = size_run(read_workload(services, order.attempt), feed.spark, runner_of(self.setup))
        services.fact(f"Spark gets {size.words}", snapshot_id=order.snapshot_id, generation=order.generation)
        context["ti"].xcom_push(key="spark_size", value=asdict(size))
        return SparkOrder(
            request_uri=self.request_uri,
            main_uri=code.main_uri,
            archive_uri=code.archive_uri,
            properties=spark_properties(size, feed.spark),
            labels={
                **spark.labels,
                "dedup_clone_feed": feed.feed,
                "dedup_clone_step": "dedup",
                "dedup_clone_attempt": order.attempt,
            },
            executors=size.executors,
            executor_cores=size.executor_cores,
            limit_s=int(self._limit_s),
        )

    def _show(self, context: Context, run: SparkRun) -> None:
        """Now, because the task waits long: Airflow itself would show them at its end."""
        self.addresses = run.addresses
        for link in LINKS:
            if link.address in run.addresses:
                context["ti"].xcom_push(key=link.xcom_key, value=run.addresses[link.address])
        for name, address in run.addresses.items():
            self.log.info("%s of Spark run %s: %s", name, run.name, address)

    @property
    def _limit_s(self) -> float:
        return (self.execution_timeout or DEFAULT_LIMIT).total_seconds()

    def _service(self) -> SparkService:
        return open_service(self.place)


def run_names(feed: str, context: Context) -> RunNames:
    """The names that the runs of this attempt have since the DAG run was cleared last."""
    return RunNames(feed, pull_order(context).attempt, getattr(context["dag_run"], "clear_number", None) or 0)


def tries_of(task: Any) -> int:
    """How many runs a task can have made before it was cleared: one with each try."""
    return int(task.retries) + 1


def stop_spark(task: Any, context: Context) -> list[str]:
    """After a failure nothing of `task` is left at work, nor what was made for it. Names the runs that it stopped."""
    if not isinstance(task, RemoteSparkOperator) or not has_order(context):
        return []
    service, names = open_service(task.place), run_names(task.setup.feed.feed, context)
    return [name for each in (*names.earlier(), names) for name in stop_runs(service, each, tries_of(task))]
