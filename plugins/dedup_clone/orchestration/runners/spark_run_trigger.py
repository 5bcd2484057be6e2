"""Waits for a Spark run in the triggerer, so that the task occupies no worker meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from dedup_clone.orchestration.runners.runner_config import RunnerConfig, open_runner
from dedup_clone.orchestration.runners.spark_run import SparkRunner

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
