"""The configuration from which tasks and triggers open a feed's runner, and the trigger that waits for a run."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.orchestration.runners.cluster import ClusterRunner
from dedup_clone.orchestration.runners.procedure import ProcedureRunner
from dedup_clone.orchestration.runners.serverless import ServerlessRunner
from dedup_clone.orchestration.runners.spark_run import SparkRunner
from dedup_clone.orchestration.setup import FeedSetup
from dedup_clone.settings.spark_settings import Runner, SparkSettings

if TYPE_CHECKING:
    from google.cloud.bigquery import Client


@dataclass(frozen=True)
class RunnerConfig:
    """What is needed to open a runner. All values are text, because triggers are serialized.

    `settings` is the profile's section `spark` as JSON. `procedure` is the stored procedure's `project.dataset.name`.
    """

    runner: str
    project: str
    location: str
    procedure: str
    google_cloud_connection: str
    sql_folder: str
    settings: str


def runner_config_of(setup: FeedSetup) -> RunnerConfig:
    """The configuration of the feed's runner."""
    deployment = setup.deployment
    return RunnerConfig(
        runner=setup.runner.value,
        project=deployment.project,
        location=deployment.location,
        procedure=f"{deployment.project}.{deployment.dataset}.dedup_clone_{setup.feed.feed}",
        google_cloud_connection=deployment.google_cloud_connection,
        sql_folder=str(setup.folders.sql),
        settings=json.dumps(deployment.spark.model_dump(mode="json")),
    )


def open_runner(config: RunnerConfig) -> SparkRunner:
    """The runner that `config` names. The runner's first call opens a client with Airflow's connection.

    Not for runner `local`, which is an operator. Raises ValueError for an unknown name.
    """
    settings, runner = SparkSettings.model_validate_json(config.settings), Runner(config.runner)
    if runner is Runner.BIGQUERY_PROCEDURE:
        return ProcedureRunner(
            cache(lambda: _bigquery(config)),
            project=config.project,
            location=config.location,
            procedure=config.procedure,
            settings=settings,
            sql_folder=Path(config.sql_folder),
        )
    from airflow.providers.google.cloud.hooks.dataproc import DataprocHook

    hook: Any = DataprocHook(gcp_conn_id=config.google_cloud_connection)
    batches = cache(lambda: hook.get_batch_client(region=settings.region))
    jobs = cache(lambda: hook.get_job_client(region=settings.region))
    if runner is Runner.SERVERLESS:
        return ServerlessRunner(batches, config.project, settings)
    assert runner is Runner.CLUSTER, runner
    return ClusterRunner(jobs, config.project, settings)


def _bigquery(config: RunnerConfig) -> Client:
    from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook

    hook = BigQueryHook(gcp_conn_id=config.google_cloud_connection)
    return hook.get_client(project_id=config.project, location=config.location)


@dataclass(frozen=True)
class SparkCode:
    """URIs of the job's main file and of the zip file of its modules. Each name has a digest of the file's content."""

    main_uri: str
    archive_uri: str


def read_spark_code(file: Path) -> SparkCode:
    """The Spark code of these DAGs. `make deploy` writes `file` beside the DAGs, so that code and DAGs change together.

    Raises ConfigurationError when the file is missing or invalid.
    """
    try:
        plain = json.loads(file.read_text(encoding="utf-8"))
        return SparkCode(plain["main"], plain["archive"])
    except OSError as error:
        raise ConfigurationError(
            f"[{file}], which names the deployed Spark code, does not exist: run `make deploy`, then clear the run."
        ) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"[{file}] does not have the format that the deployment writes: run `make deploy`, then clear the run."
        ) from error


MAX_CONSECUTIVE_ERRORS = 10

T = TypeVar("T")


class SparkRunTrigger(BaseTrigger):
    """Fires when the run has finished or does not exist, and at `timeout_at`.

    It also fires if the service cannot be asked. The event says only whether it is `timeout_at`; the task asks the
    service itself. `config`: the fields of a RunnerConfig. `poll_s`: seconds between polls. `timeout_at`: in
    seconds since 1970.
    """

    def __init__(self, config: dict[str, str], name: str, poll_s: float, timeout_at: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.config = config
        self.name = name
        self.poll_s = poll_s
        self.timeout_at = timeout_at

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kwargs = {"config": self.config, "name": self.name, "poll_s": self.poll_s, "timeout_at": self.timeout_at}
        return f"{type(self).__module__}.{type(self).__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        runner = await self._runner()
        errors = 0
        while time.time() < self.timeout_at:
            try:
                run = await _in_thread(lambda: runner.get_run(self.name))
                needs_task, errors = run is None or run.state.is_finished, 0
            except Exception:
                self.log.warning("cannot ask for Spark run %s", self.name, exc_info=True)
                errors += 1
                needs_task = errors > MAX_CONSECUTIVE_ERRORS
            if needs_task:
                yield self._event(is_too_slow=False)
                return
            await asyncio.sleep(self.poll_s)
        yield self._event(is_too_slow=True)

    async def on_kill(self) -> None:
        """Called when somebody marks or clears the task: stops the run."""
        runner = await self._runner()
        await _in_thread(lambda: runner.cancel(self.name))
        self.log.info("cancelled Spark run %s", self.name)

    def _event(self, *, is_too_slow: bool) -> TriggerEvent:
        return TriggerEvent({"name": self.name, "is_too_slow": is_too_slow})  # type: ignore[no-untyped-call]

    async def _runner(self) -> SparkRunner:
        return await _in_thread(lambda: open_runner(RunnerConfig(**self.config)))


async def _in_thread(call: Callable[[], T]) -> T:
    """Makes the call in a thread, because it blocks and the triggerer's event loop must not be blocked."""
    return await sync_to_async(call, thread_sensitive=False)()
