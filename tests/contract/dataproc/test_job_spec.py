"""From an attempt to a Spark run: its workload, its job, and what is stopped when the publish fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from dedup_clone.contract.attempt import Attempt, Plan
from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import to_json
from dedup_clone.contract.table import Column, UpdateIdMode
from dedup_clone.orchestration import step
from dedup_clone.orchestration.runners import dedup
from dedup_clone.orchestration.runners.sizing import Workload, read_workload
from dedup_clone.publish.services import Services
from testkit.feed_on_stand_in import TODAY, YESTERDAY, FeedOnStandIn, row
from tests.contract.dataproc.conftest import Simulate


def rewrite(services: Services, attempt: Attempt, **changes: Any) -> None:
    request = services.manifests.attempt(attempt.id)
    assert request
    services.manifests.write_attempt(replace(request, **changes))


def workload(world: FeedOnStandIn, attempt: Attempt) -> Workload:
    """The workload of an attempt, whose lease is given back."""
    work = read_workload(world.services, attempt.id)
    world.services.current.release(attempt.id)
    return work


def test_deliveries_are_sized_by_bytes_and_then_by_the_parents_rows(world: FeedOnStandIn) -> None:
    first = world.land(7, [row(7, 1), row(7, 2)])
    work = workload(world, world.resolve(first))
    assert (work.deliveries, work.dates, work.parent_rows, work.plan) == (1, 1, 0, Plan.ADOPT)
    assert work.delivered_rows == work.delivered_bytes // 8 > 0
    world.publish(first)
    work = workload(world, world.resolve(world.land(8, [row(8, 1)])))
    assert (work.delivered_rows, work.parent_rows) == (2, 2)
    world.land(9, [row(9, 1)])
    work = workload(world, world.resolve(world.land(10, [row(10, 1)])))  # only the newest counts as the newest
    assert (work.deliveries, work.newest_rows, work.older_rows, work.plan) == (3, 2, 4, Plan.ADOPT)


LAST_CHANGED = {"update_id_mode": UpdateIdMode.LAST_CHANGED}


@pytest.mark.parametrize(
    ("change", "plan"),
    [
        ({"plan": Plan.WINDOW}, Plan.WINDOW),
        ({"plan": Plan.REWRITE}, Plan.REWRITE),
        ({"date_folders": False}, Plan.WINDOW),
        (LAST_CHANGED, Plan.REWRITE),
        ({"exact": True}, Plan.REWRITE),
        ({"date_folders": False, "erases": "gs://state/keys.csv"}, Plan.ADOPT),
    ],
)
def test_an_attempt_is_sized_for_the_plan_of_its_dates(
    world: FeedOnStandIn, change: dict[str, Any], plan: Plan
) -> None:
    attempt = world.resolve(world.land(7, [row(7, 1)]))
    rewrite(world.services, attempt, **change)
    assert read_workload(world.services, attempt.id).plan is plan


def test_several_deliveries_that_cannot_be_adopted_are_ranked(world: FeedOnStandIn) -> None:
    world.land(7, [row(7, 1)])
    attempt = world.resolve(world.land(8, [row(8, 1)]))
    rewrite(world.services, attempt, **LAST_CHANGED)
    assert read_workload(world.services, attempt.id).plan is Plan.WINDOW


def test_only_the_requested_dates_count(world: FeedOnStandIn) -> None:
    two_dates = [row(7, 1), row(7, 2), row(7, 1, day=YESTERDAY)]
    world.publish(world.land(7, two_dates))
    name = world.land(8, two_dates)
    work = workload(world, world.resolve(name, replay=True, dates=(YESTERDAY,), reason="yesterday was wrong"))
    assert (work.delivered_rows, work.parent_rows, work.dates) == (1, 1, 1)
    attempt = world.resolve(name)
    rewrite(world.services, attempt, dates=(date(1999, 1, 1),))
    assert workload(world, attempt).delivered_bytes == 0


def test_folders_are_named_after_the_feeds_own_partition_column(world: FeedOnStandIn) -> None:
    attempt, services = world.resolve(world.land(7, [row(7, 1)])), world.services
    (delivery,), request = services.arrivals.deliveries(), services.manifests.attempt(attempt.id)
    assert request
    arrival = services.arrivals.read(delivery)
    objects = tuple(replace(o, name=o.name.replace("/date=", "/day=")) for o in arrival.objects)
    services.store.put(services.layout.arrival(delivery), to_json(replace(arrival, objects=objects)))
    table = replace(request.table, columns=(Column("day", "DATE"),), partition_column="day")
    rewrite(services, attempt, table=table, dates=(TODAY,))
    assert read_workload(services, attempt.id).delivered_bytes > 0


def test_an_attempt_without_its_record_has_no_workload(world: FeedOnStandIn) -> None:
    with pytest.raises(ContractViolation):
        read_workload(world.services, "nobody")


def test_the_run_gets_the_attempts_uri_and_is_stopped_when_the_publish_fails(
    world: FeedOnStandIn, fakes, simulate: Simulate, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, task = fakes("cluster", slowness=9), simulate("cluster")
    monkeypatch.setattr(step, "open_feed_services", lambda setup: world.services)
    monkeypatch.setattr(dedup, "read_workload", read_workload)
    attempt = world.resolve(world.land(7, [row(7, 1)]))
    task.pulled = attempt.id
    name = f"dc-worked-example-{attempt.id}-1"
    assert task.deferral().trigger.name == name
    assert [(run.name, run.argument) for run in fake.state.active] == [(name, attempt.uri)]
    task.stop_spark(task.context())
    assert fake.state.active == []


def test_without_an_attempt_nothing_is_stopped(fakes, simulate: Simulate) -> None:
    fake, task = fakes("serverless"), simulate("serverless")
    task.pulled = None
    task.stop_spark(task.context())
    assert fake.faults.calls == []
