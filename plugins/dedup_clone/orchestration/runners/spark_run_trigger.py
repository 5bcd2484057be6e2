"""Waits for a Spark run in the triggerer, so that the task occupies no worker meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from dedup_clone.orchestration.runners.runner_config import RunnerConfig, open_runner
from dedup_clone.orchestration.runners.spark_run import SparkRun, SparkRunner

MAX_CONSECUTIVE_ERRORS = 10
# Why the trigger fired.
STATE_CHANGED = "state_changed"
TIMED_OUT = "timed_out"
UNREACHABLE = "unreachable"

T = TypeVar("T")


class SparkRunTrigger(BaseTrigger):
    """Fires when the run has finished or does not exist, and at `timeout_at`.

    It also fires if the service cannot be asked. The event says only why the trigger fired; the task asks the service
    itself. `config`: the fields of a RunnerConfig. `poll_s`: seconds between polls. `timeout_at`: in
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
        while True:
            try:
                run = await _in_thread(lambda: runner.get_run(self.name))
                errors = 0
            except Exception:
                self.log.warning("cannot ask for Spark run %s", self.name, exc_info=True)
                errors += 1
                if errors > MAX_CONSECUTIVE_ERRORS:
                    yield self._event(UNREACHABLE)
                    return
            else:
                if _needs_task(run):
                    yield self._event(STATE_CHANGED)
                    return
            if time.time() >= self.timeout_at:
                yield self._event(TIMED_OUT)
                return
            await asyncio.sleep(self.poll_s)

    async def on_kill(self) -> None:
        """Called when somebody marks or clears the task: stops the run."""
        runner = await self._runner()
        await _in_thread(lambda: runner.cancel(self.name))
        self.log.info("cancelled Spark run %s", self.name)

    def _event(self, reason: str) -> TriggerEvent:
        return TriggerEvent({"name": self.name, "reason": reason})  # type: ignore[no-untyped-call]

    async def _runner(self) -> SparkRunner:
        return await _in_thread(lambda: open_runner(RunnerConfig(**self.config)))


def _needs_task(run: SparkRun | None) -> bool:
    return run is None or run.state.is_finished


async def _in_thread(call: Callable[[], T]) -> T:
    """Makes the call in a thread, because it blocks and the triggerer's event loop must not be blocked."""
    return await sync_to_async(call, thread_sensitive=False)()
