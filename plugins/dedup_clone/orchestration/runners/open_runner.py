"""Opens a feed's runner from plain arguments, which a trigger can store, and the trigger that waits for a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from dedup_clone.orchestration.runners.dataproc import ClusterRunner, ServerlessRunner
from dedup_clone.orchestration.runners.procedure import ProcedureRunner
from dedup_clone.orchestration.runners.spark_run import SparkRunner
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.settings.deployment import Deployment
from dedup_clone.settings.spark_settings import Runner

T = TypeVar("T")


def runner_arguments(setup: FeedSetup) -> dict[str, str]:
    """The arguments of `open_runner` for the feed."""
    return {
        "runner": str(setup.runner),
        "feed": setup.feed.feed,
        "sql_folder": str(setup.folders.sql),
        "deployment": setup.deployment.model_dump_json(),
    }


def open_runner(*, runner: str, feed: str, sql_folder: str, deployment: str) -> SparkRunner:
    """The runner; its first call opens a client with Airflow's connection. Not for runner `local`, which has no API.

    `deployment`: the profile as JSON. Raises ValueError for an unknown runner.
    """
    kind, profile = Runner(runner), Deployment.model_validate_json(deployment)
    connection, region = profile.google_cloud_connection, profile.spark.region
    if kind is Runner.BIGQUERY_PROCEDURE:
        from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook

        bigquery: Any = BigQueryHook(gcp_conn_id=connection)
        client = cache(lambda: bigquery.get_client(project_id=profile.project, location=profile.location))
        return ProcedureRunner(client, profile, feed, Path(sql_folder))
    from airflow.providers.google.cloud.hooks.dataproc import DataprocHook

    hook: Any = DataprocHook(gcp_conn_id=connection)
    if kind is Runner.SERVERLESS:
        return ServerlessRunner(cache(lambda: hook.get_batch_client(region=region)), profile)
    assert kind is Runner.CLUSTER, kind
    return ClusterRunner(cache(lambda: hook.get_job_client(region=region)), profile)


class SparkRunTrigger(BaseTrigger):
    """Fires when the run has finished or does not exist, if the service cannot be asked, and at `timeout_at`.

    The event has only `name` and `timeout_at` (in seconds since 1970), so that the task, which asks the service itself,
    can wait on until the same time. `runner`: the arguments of `open_runner`. `poll_s`: seconds between polls.
    """

    def __init__(self, runner: dict[str, str], name: str, poll_s: float, timeout_at: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.runner = runner
        self.name = name
        self.poll_s = poll_s
        self.timeout_at = timeout_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kwargs = {"runner": self.runner, "name": self.name, "poll_s": self.poll_s, "timeout_at": self.timeout_at}
        return f"{type(self).__module__}.{type(self).__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        runner = await _in_thread(lambda: open_runner(**self.runner))
        while time.time() < self.timeout_at:
            try:
                run = await _in_thread(lambda: runner.get_run(self.name))
            except Exception:
                self.log.warning("cannot ask for Spark run %s", self.name, exc_info=True)
                run = None
            if run is None or run.state.is_finished:
                break
            await asyncio.sleep(self.poll_s)
        yield TriggerEvent({"name": self.name, "timeout_at": self.timeout_at})  # type: ignore[no-untyped-call]

    async def on_kill(self) -> None:
        """Called when somebody marks or clears the task: stops the run."""
        await _in_thread(lambda: open_runner(**self.runner).cancel(self.name))
        self.log.info("cancelled Spark run %s", self.name)


async def _in_thread(call: Callable[[], T]) -> T:
    """Makes the call in a thread, because it blocks and the triggerer's event loop must not be blocked."""
    return await sync_to_async(call, thread_sensitive=False)()
