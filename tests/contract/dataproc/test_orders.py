"""From a real order to a run: what state says of the work, what the run is told, and what is left when it fails."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import TaskDeferred
from google.cloud.bigquery import Client as BigQuery
from google.cloud.storage import Client as Storage

from dedup_clone.contract.errors import ContractViolation
from dedup_clone.contract.records import to_plain
from dedup_clone.contract.request import Plan
from dedup_clone.contract.table import UpdateIdMode
from dedup_clone.orchestration import by_engine
from dedup_clone.orchestration.order_xcom import RESOLVE_TASK, pull_order
from dedup_clone.orchestration.runners import remote
from dedup_clone.orchestration.runners.workload import read_workload
from dedup_clone.publish.orders import PublishOrder
from dedup_clone.publish.services import Services
from tests.contract.dataproc.conftest import MakePlay
from tests.contract.publish.conftest import new_feed
from tests.contract.publish.feed_world import FeedWorld, row
from tests.contract.publish.servers import shared_clients as shared_clients


@pytest.fixture
def world(clients: tuple[Storage, BigQuery]) -> FeedWorld:
    return FeedWorld(new_feed("sized_"), *clients)


def rewrite(services: Services, order: PublishOrder, **changes: Any) -> None:
    request = services.manifests.request(order.attempt)
    assert request
    services.manifests.write_request(replace(request, **changes))


def test_the_first_snapshot_is_sized_by_its_bytes_and_the_next_by_the_parents_rows(world: FeedWorld) -> None:
    first = world.land(7, [row(7, 1), row(7, 2)])
    order = world.resolve(first)
    work = read_workload(world.services, order.attempt)
    assert (work.deliveries, work.dates, work.parent_rows, work.adoptable) == (1, 1, 0, True)
    assert work.delivered_rows == work.delivered_bytes // 8 > 0
    world.services.current.release(order.attempt)
    world.publish(first)
    work = read_workload(world.services, world.resolve(world.land(8, [row(8, 1)])).attempt)
    assert (work.delivered_rows, work.parent_rows) == (2, 2)


def test_what_cannot_be_adopted_is_work_of_another_size(world: FeedWorld) -> None:
    order = world.resolve(world.land(7, [row(7, 1)]))
    for change in ({"plan": Plan.WINDOW}, {"update_id_mode": UpdateIdMode.LAST_CHANGED}):
        rewrite(world.services, order, **change)
        assert not read_workload(world.services, order.attempt).adoptable
        rewrite(world.services, order, plan=Plan.AUTO, update_id_mode=UpdateIdMode.LAST_SEEN)


def test_only_the_dates_asked_for_count(world: FeedWorld) -> None:
    order = world.resolve(world.land(7, [row(7, 1)]))
    rewrite(world.services, order, dates=(date(1999, 1, 1),))
    assert read_workload(world.services, order.attempt).delivered_bytes == 0


def test_without_its_request_an_attempt_has_no_size(world: FeedWorld) -> None:
    with pytest.raises(ContractViolation, match=r"attempt \[nobody\] is gone: clear the run from its first task"):
        read_workload(world.services, "nobody")


def test_the_run_is_told_the_orders_request_and_stopped_when_the_publish_fails(
    world: FeedWorld, fakes, play: MakePlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake, task = fakes("own_cluster", slowness=9), play("own_cluster")
    for module in (by_engine, remote):
        monkeypatch.setattr(module, "pull_order", pull_order)
        monkeypatch.setattr(module, "connect", lambda setup: world.services)
    monkeypatch.setattr(remote, "read_workload", read_workload)
    order = world.resolve(world.land(7, [row(7, 1)]))
    ti = SimpleNamespace(try_number=1, xcom_push=lambda key, value: None, xcom_pull=lambda **_: to_plain(order))
    dag = SimpleNamespace(has_task=lambda name: name == "resolve_publish")
    context: Any = {"ti": ti, "dag": dag, "dag_run": SimpleNamespace(clear_number=2)}
    operator = task.operator()
    operator.request_uri = order.request_uri
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute(context)
    name = f"dc-worked-example-{order.attempt}-c2-1"
    assert deferred.value.trigger.name == name
    fake.world.clusters[name].state = "RUNNING"
    with pytest.raises(TaskDeferred):
        operator.resume(context, {"name": name, "why": "look_again", "message": ""})
    assert [(run.name, run.argument) for run in fake.world.active] == [(name, order.request_uri)]
    assert remote.stop_spark(operator, context) == [name]
    assert (fake.world.active, fake.world.costly_clusters) == ([], [])


def test_where_nothing_was_ordered_or_spark_is_local_nothing_is_stopped(fakes, play: MakePlay) -> None:
    fake, task = fakes("serverless"), play("serverless")
    dag = SimpleNamespace(has_task=lambda name: name == RESOLVE_TASK)
    without: Any = {"ti": SimpleNamespace(xcom_pull=lambda **_: None), "dag": dag}
    assert remote.stop_spark(task.operator(), without) == []
    assert remote.stop_spark(SimpleNamespace(retries=3), without) == []
    assert fake.faults.calls == []
