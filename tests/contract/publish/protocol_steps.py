"""Defines the steps that the scenarios of test_scenarios.py call, and carries them out with the product's protocol.

naive_steps.py carries the same steps out with a naive protocol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from google.cloud.bigquery import LoadJob

from dedup_clone.publish.load import begin_load, finish_load, read_candidate, table_load_configuration
from dedup_clone.publish.step_specs import PublishSpec, SwapSpec
from testkit.fake_dedup_job import Row
from testkit.feed_on_stand_in import FeedOnStandIn, job_id


class Steps(Protocol):
    """The steps that a scenario may call. To let a run die, a scenario calls no further step of it."""

    world: FeedOnStandIn

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
    spec: PublishSpec
    job: Any = None
    swap: SwapSpec | None = None


class ProtocolSteps:
    """The steps with the product's protocol."""

    def __init__(self, world: FeedOnStandIn) -> None:
        self.world = world

    def land(self, snapshot_id: int, rows: list[Row]) -> str:
        return self.world.land(snapshot_id, rows)

    def begin(self, name: str) -> ProtocolAttempt:
        spec = self.world.resolve(name)
        self.world.dedup.run(spec.request_uri)
        return ProtocolAttempt(spec)

    def start_load(self, attempt: ProtocolAttempt) -> None:
        services, spec = self.world.services, attempt.spec
        candidate, manifest = read_candidate(services, spec)
        begin_load(services, spec, manifest)
        name = job_id(spec, "load", 1)
        services.current.record_job(spec.attempt, name)
        reference = {"projectId": "local-dev", "jobId": name, "location": "US"}
        configuration = table_load_configuration(services, candidate, manifest)
        attempt.job = LoadJob.from_api_repr(
            {"jobReference": reference, "configuration": configuration}, self.world.bigquery
        )
        attempt.job._begin()

    def wait_for_load(self, attempt: ProtocolAttempt) -> None:
        attempt.job.result()
        finish_load(self.world.services, attempt.spec, read_candidate(self.world.services, attempt.spec)[1])

    def check(self, attempt: ProtocolAttempt) -> None:
        attempt.swap = self.world.check(attempt.spec)

    def swap(self, attempt: ProtocolAttempt) -> None:
        assert attempt.swap
        self.world.swap(attempt.spec, attempt.swap)

    def commit(self, attempt: ProtocolAttempt) -> None:
        self.world.commit(attempt.spec)

    def publish(self, name: str) -> None:
        self.world.publish(name)

    def roll_back(self, generation: int) -> None:
        self.world.roll_back(generation)

    def rows(self) -> list[tuple[Any, ...]]:
        return self.world.rows()
