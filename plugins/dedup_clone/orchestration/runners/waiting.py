"""Waits for a Spark run in the triggerer: no worker is held meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from airflow.triggers.base import BaseTrigger, TriggerEvent
from asgiref.sync import sync_to_async

from dedup_clone.contract.errors import ConfigurationError, SparkUnavailable
from dedup_clone.orchestration.runners.place import SparkPlace, open_service
from dedup_clone.orchestration.runners.spark_run import RunState, SparkRun, SparkService

TROUBLES_TOLERATED = 10
LOOK_AGAIN = "look_again"
TIME_IS_UP = "time_is_up"
UNREACHABLE = "unreachable"

T = TypeVar("T")


class SparkRunTrigger(BaseTrigger):
    """Fires when the run of that `name` is over or wants something, or at `until` (seconds since 1970).

    The event says why it fired and no more: the task looks for itself. `poll_s`: seconds between two looks.
    """

    def __init__(self, place: dict[str, str], name: str, poll_s: float, until: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.place = place
        self.name = name
        self.poll_s = poll_s
        self.until = until

    def serialize(self) -> tuple[str, dict[str, Any]]:
        kwargs = {"place": self.place, "name": self.name, "poll_s": self.poll_s, "until": self.until}
        return f"{type(self).__module__}.{type(self).__qualname__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        service = await self._service()
        troubles = 0
        while True:
            try:
                run = await _in_thread(lambda: service.look(self.name))
                troubles = 0
            except (SparkUnavailable, ConfigurationError) as error:
                troubles += 1
                if troubles > TROUBLES_TOLERATED or isinstance(error, ConfigurationError):
                    yield self._event(UNREACHABLE, str(error))
                    return
            else:
                if _wants_something(run):
                    yield self._event(LOOK_AGAIN)
                    return
            if time.time() >= self.until:
                yield self._event(TIME_IS_UP)
                return
            await asyncio.sleep(self.poll_s)

    async def on_kill(self) -> None:
        """Somebody marked the task or cleared it: the run is stopped, with whatever was made for it."""
        service = await self._service()
        await _in_thread(lambda: service.cancel(self.name))
        self.log.info("cancelled Spark run %s", self.name)

    def _event(self, why: str, message: str = "") -> TriggerEvent:
        event = {"name": self.name, "why": why, "message": message}
        return TriggerEvent(event)  # type: ignore[no-untyped-call]

    async def _service(self) -> SparkService:
        return await _in_thread(lambda: open_service(SparkPlace(**self.place)))


def _wants_something(run: SparkRun | None) -> bool:
    return run is None or run.state is RunState.READY or run.state.is_over


async def _in_thread(call: Callable[[], T]) -> T:
    """Clients block; the triggerer's loop must not."""
    return await sync_to_async(call, thread_sensitive=False)()
