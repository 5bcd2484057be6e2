"""The product's protocol as the steps that scenarios call, so that the naive one can run the same scenario."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from google.cloud.bigquery import LoadJob

from dedup_clone.publish.load import begin_load, finish_load, job_id, load_configuration, read_candidate
from dedup_clone.publish.orders import PublishOrder, SwapOrder
from tests.contract.publish.feed_world import FeedWorld
from tests.contract.publish.python_dedup import Row


class Steps(Protocol):
    """What a scenario may do. A run that dies is one of which no further step is called."""

    world: FeedWorld

    def land(self, snapshot_id: int, rows: list[Row]) -> str: ...
    def begin(self, name: str) -> Any: ...
    def start_load(self, attempt: Any) -> None: ...
    def wait_for_load(self, attempt: Any) -> None: ...
    def check(self, attempt: Any) -> None: ...
    def swap(self, attempt: Any) -> None: ...
    def commit(self, attempt: Any) -> None: ...
    def publish(self, name: str) -> None: ...
    def roll_back(self, generation: int) -> None: ...
    def rows(self) -> list[tuple[Any, ...]]: ...


@dataclass
class ProtocolAttempt:
    order: PublishOrder
    job: Any = None
    swap: SwapOrder | None = None


class ProtocolSteps:
    def __init__(self, world: FeedWorld) -> None:
        self.world = world

    def land(self, snapshot_id: int, rows: list[Row]) -> str:
        return self.world.land(snapshot_id, rows)

    def begin(self, name: str) -> ProtocolAttempt:
        order = self.world.resolve(name)
        self.world.dedup.run(order.request_uri)
        return ProtocolAttempt(order)

    def start_load(self, attempt: ProtocolAttempt) -> None:
        services, order = self.world.services, attempt.order
        candidate, manifest = read_candidate(services, order)
        begin_load(services, order, manifest)
        name = job_id(order, "load", 1)
        services.current.record_job(order.attempt, name)
        reference = {"projectId": "local-dev", "jobId": name, "location": "US"}
        configuration = load_configuration(services, candidate)
        attempt.job = LoadJob.from_api_repr(
            {"jobReference": reference, "configuration": configuration}, self.world.bigquery
        )
        attempt.job._begin()

    def wait_for_load(self, attempt: ProtocolAttempt) -> None:
        attempt.job.result()
        finish_load(self.world.services, attempt.order, read_candidate(self.world.services, attempt.order)[1])

    def check(self, attempt: ProtocolAttempt) -> None:
        attempt.swap = self.world.check(attempt.order)

    def swap(self, attempt: ProtocolAttempt) -> None:
        assert attempt.swap
        self.world.swap(attempt.order, attempt.swap)

    def commit(self, attempt: ProtocolAttempt) -> None:
        self.world.commit(attempt.order)

    def publish(self, name: str) -> None:
        self.world.publish(name)

    def roll_back(self, generation: int) -> None:
        self.world.roll_back(generation)

    def rows(self) -> list[tuple[Any, ...]]:
        return self.world.rows()
