"""Executes tasks of a feed's DAGs in this process, as Airflow's task runner does, and its watch and its watchdog.

A run that is executed without Airflow is in testkit/runs.py. `airflow` answers what tasks ask about DAGs and runs
(testkit/airflow.py).
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.providers.google.cloud.hooks import gcs
from airflow.sdk import DAG
from airflow.sdk.exceptions import DownstreamTasksSkipped
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.observability import stats
from airflow.triggers.base import BaseTrigger

from dedup_clone.contract.attempt import Attempt
from dedup_clone.contract.delivery import Delivery
from dedup_clone.freshness.feed_state import FailedRun
from dedup_clone.orchestration import setup as setup_module
from dedup_clone.orchestration.runners import dedup
from dedup_clone.orchestration.setup import FeedOfForm, FeedSetup, find_folders
from dedup_clone.orchestration.step import FeedRun, NotYet
from dedup_clone.orchestration.watch import notice_delivery
from dedup_clone.orchestration.watch.publish_runs import find_failed_publish, publish_run_id
from dedup_clone.orchestration.watchdog import reporting
from dedup_clone.orchestration.watchdog.feed_check import check_feed
from dedup_clone.settings.deployment import read_deployment
from dedup_clone.settings.feed import ExpectedArrivals
from testkit.airflow import judged
from testkit.feed_on_stand_in import REPOSITORY, FeedOnStandIn

DAGS = REPOSITORY / "dags"


def setup_of(world: FeedOnStandIn) -> FeedSetup:
    """The feed's setup with the local profile of this repository, as the DAG files make it."""
    return FeedSetup(world.feed, read_deployment(DAGS / "profiles", {"DEDUP_CLONE_PROFILE": "local"}), _folders())


@cache
def _folders() -> Any:
    return find_folders(DAGS)


@cache
def _dag_file(name: str) -> Any:
    """The module of this DAG file."""
    spec = importlib.util.spec_from_file_location(f"dag_file_{name}", DAGS / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _dag_for(world: FeedOnStandIn, name: str, monkeypatch: pytest.MonkeyPatch) -> DAG:
    """The feed's DAG of this file, or the file's DAG for all feeds, which then finds this feed."""
    module, setup = _dag_file(name), setup_of(world)
    monkeypatch.setattr(FeedOfForm, "named", lambda self, feed: setup)
    return cast("DAG", module.dag if hasattr(module, "dag") else getattr(module, name)(setup))


def let_tasks_use(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, *others: FeedOnStandIn) -> None:
    """Let tasks open the services of these feeds, with their clocks, in place of clients by Airflow's connections."""
    by_name = {one.feed.feed: one for one in others}
    monkeypatch.setattr(gcs, "GCSHook", lambda **_: SimpleNamespace(get_conn=lambda: world.storage))
    monkeypatch.setattr(setup_module, "environment_name", lambda: world.environment)
    clients = SimpleNamespace(of_feed=lambda feed, **_: by_name.get(feed.feed, world).services)
    monkeypatch.setattr(setup_module, "open_clients", lambda deployment, sql: clients)


def load_waiting_rows(world: FeedOnStandIn, monkeypatch: pytest.MonkeyPatch, *others: FeedOnStandIn) -> None:
    """Run the watchdog's task that loads what tables of all feeds lack, and reports tables that lack rows for long."""
    feeds = {one.feed.feed: setup_of(one) for one in (world, *others)}
    let_tasks_use(world, monkeypatch, *others)
    monkeypatch.setattr(reporting, "read_feed_setup", lambda path, folders: feeds[path.stem])
    reporting.load_waiting_rows(setup_of(world))


class DagTasks:
    """One run of a DAG, whose tasks a test executes one by one. The dedup job is the world's, by default a fake.

    `dag`: such as `publish`. `form`: fields of the form that differ from their defaults. `results`: XComs by task id
    and key. `user`: who triggered the run. `events`: of assets.
    """

    def __init__(
        self,
        world: FeedOnStandIn,
        airflow: Any,
        monkeypatch: pytest.MonkeyPatch,
        dag: str,
        run_id: str = "by-hand",
        **form: Any,
    ) -> None:
        self.world, self.airflow, self.run_id = world, airflow, run_id
        self.dag = _dag_for(world, dag, monkeypatch)
        self.form = {"feed": world.feed.feed, **form} if "feed" in self.dag.params else form
        self.results: dict[tuple[str, str], Any] = {}
        self.user: str | None = None
        self.events = OutletEventAccessors()
        self.skipped: list[Any] = []
        airflow.add_run(self.dag.dag_id, run_id)
        let_tasks_use(world, monkeypatch)
        monkeypatch.setattr(dedup, "run_local_spark", lambda run: world.dedup.run(run.attempt.uri))

    def context(self, task_id: str) -> Any:
        """The context of a task instance, whose task is a copy to be executed, as in Airflow."""

        def push(*, key: str, value: Any) -> None:
            self.results[task_id, key] = value

        def pull(*, task_ids: str, key: str = "return_value") -> Any:
            return self.results.get((task_ids, key))

        ti = SimpleNamespace(xcom_push=push, xcom_pull=pull, map_index=-1, task_id=task_id, try_number=1)
        run = self.airflow.runs[self.dag.dag_id][self.run_id]
        run.triggering_user_name = self.user
        defaults: Any = self.dag.params
        params = {**{name: param.value for name, param in defaults.items()}, **self.form}
        task = self.dag.get_task(task_id).prepare_for_execution()
        context: Any = {"ti": ti, "task_instance": ti, "task": task, "dag": self.dag, "params": params, "dag_run": run}
        context["outlet_events"] = self.events
        task.render_template_fields(context)
        return context

    def execute(self, task_id: str, **form: Any) -> Any:
        """Execute the task, and keep its result for later tasks. `skipped` then has the tasks that it skipped."""
        self.form |= form
        context = self.context(task_id)
        with judged(context["task"]), self._skipping():
            result = context["task"].execute(context)
            if context["task"].multiple_outputs and not isinstance(result, dict):
                raise TypeError(f"[{task_id}] returned {result!r}; Airflow expects an object, as its function declares")
            self._keep(task_id, result)
        return self.results[task_id, "return_value"]

    def resume(self, task_id: str, event: Any, method: str = "execute") -> Any:
        """Let the task, which was deferred, go on after its trigger has fired with this event."""
        context = self.context(task_id)
        with judged(context["task"]), self._skipping():
            self._keep(task_id, getattr(context["task"], method)(context, event))
        return self.results[task_id, "return_value"]

    @contextmanager
    def _skipping(self) -> Iterator[None]:
        try:
            yield
        except DownstreamTasksSkipped as skip:
            self.skipped = list(skip.tasks)

    def _keep(self, task_id: str, result: Any) -> Any:
        self.results[task_id, "return_value"] = result
        return result

    def has_taken(self, attempt: Attempt) -> None:
        """Begin with a run that has the lease already."""
        self._keep("resolve_publish", attempt.id)

    @property
    def plan(self) -> Attempt:
        """The attempt whose id the resolve task returned."""
        found = [result for (task_id, _), result in self.results.items() if task_id.startswith("resolve_")]
        (attempt,) = [result for result in found if isinstance(result, str)]
        return self.world.services.manifests.attempt(attempt)


class _Later:
    """Moves the clock of a feed: `later` is by how much it is ahead of the time that the feed had before."""

    def __init__(self, world: FeedOnStandIn) -> None:
        self.world = world
        self.later = timedelta(0)
        clock = world.now
        world.now = lambda: clock() + self.later


class Watch(_Later):
    """The first step of a feed's watch DAG. `dag_id`: of its publish DAG, whose runs `airflow` knows."""

    def __init__(self, world: FeedOnStandIn, airflow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(world)
        self.airflow = airflow
        let_tasks_use(world, monkeypatch)
        self.setup = setup_of(world)
        self.dag_id = self.setup.dag_id("publish")

    def mark(self, *snapshot_ids: int) -> None:
        """Upload the markers of these snapshots."""
        for snapshot_id in snapshot_ids:
            self.world.overwrite(snapshot_id, "_SUCCESS", b"")

    def register(self) -> list[str]:
        """Register the deliveries in landing. Returns the ids of the runs to start, which Airflow then knows."""
        event = {"message": "found a marker"}
        items = notice_delivery.notice_delivery(FeedRun(self.setup, cast("Any", {}), event))
        found = [str(item["trigger_run_id"]) for item in items]
        for run_id in found:
            self.airflow.add_run(self.dag_id, run_id)
        return found

    def waits_for(self) -> BaseTrigger:
        """The trigger for which the step waits."""
        with pytest.raises(NotYet) as wait:
            notice_delivery.notice_delivery(FeedRun(self.setup, cast("Any", {})))
        return wait.value.trigger

    def end(self, run_id: str, state: str = "failed") -> None:
        self.airflow.add_run(self.dag_id, run_id, state, end_date=self.world.now())

    def run_id(self, number: int = 1) -> str:
        """The id of the `number`-th run for the newest delivery that waits."""
        return publish_run_id(self.waiting[-1], number)

    def failed(self, deliveries: tuple[Delivery, ...] | None = None) -> FailedRun | None:
        """The failed publish that the watchdog finds for these deliveries, by default those that wait."""
        return find_failed_publish(self.world.services, self.dag_id, deliveries or self.waiting)

    @property
    def waiting(self) -> tuple[Delivery, ...]:
        return self.world.services.arrivals.backlog(None).apply


class Watchdog(_Later):
    """The watchdog's check of one feed; a run of its watch DAG is active. `gauges`: the metrics that it emitted."""

    def __init__(
        self, world: FeedOnStandIn, airflow: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        super().__init__(world)
        self.airflow, self.caplog = airflow, caplog
        self.gauges: dict[str, float] = {}
        self.setup = setup_of(world)
        airflow.add_run(self.setup.dag_id("watch"), "scheduled__1")
        caplog.set_level(logging.WARNING, logger="dedup_clone.alerts")
        let_tasks_use(world, monkeypatch)
        monkeypatch.setenv("DEDUP_CLONE_PROFILE", "local")
        monkeypatch.setattr(stats, "gauge", lambda name, value, tags: self.gauges.update({name: value}))

    def expect(self, when: timedelta) -> None:
        """Expect a snapshot every day at the time of day that is `when` after now, with half an hour of grace."""
        expected = ExpectedArrivals(times=(f"{datetime.now(UTC) + when:%H:%M}",))
        freshness = self.world.feed.freshness.model_copy(update={"expected_arrivals": expected})
        self.world.feed = self.world.feed.model_copy(update={"freshness": freshness})
        self.setup = setup_of(self.world)

    def check(self, *, later: timedelta = timedelta(0)) -> list[str]:
        """Run a check `later` after now. Returns the titles of the alerts that it sends."""
        self.later = later
        self.caplog.clear()
        check_feed(self.setup)
        return self.titles()

    def titles(self) -> list[str]:
        """The titles of the feed's alerts in the log since the last check began."""
        prefix = f"[{self.world.feed.feed}] "
        lines = [r.getMessage().splitlines()[0] for r in self.caplog.records if r.name == "dedup_clone.alerts"]
        return [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
