"""Five ways to end a publish run badly, on the real stack: its delivery is published all the same, and who is told.

All five go on side by side. The ten minutes between a run's end and its repeat do not pass: the end that Airflow has
stored is set back by ten minutes. And instead of five minutes until the watch DAG looks again, its run is ended.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from airflow.api_fastapi.core_api.datamodels.dag_run import DAGRunResponse

from devstack.stack import postgres
from soak import victim_processes
from testkit.holding_proxy import HoldPhase
from testkit.proxied_request import ProxiedRequest, Service
from testkit.proxied_stack import ProxiedStack
from testkit.stack_client import StackClient, as_tuples, row
from testkit.waiting import TIMEOUT_S, wait_for
from tests.shared.task_api import TaskApi
from tests.stack.airflow_answers import ASKING_DAG, ASKING_TASK, answers
from tests.stack.extra_feeds import DELETED, ENDED_BADLY, FAILED, KILLED, MARKED_FAILED, MARKED_SUCCESS
from tests.stack.slowed_publish import Watchdog

pytestmark = [pytest.mark.stack, pytest.mark.timeout(900)]

AT_RISK = "freshness SLA at risk (promise_at_risk)"
REPEATED_LATER = (FAILED, MARKED_FAILED, MARKED_SUCCESS)
STOPPED_IN_LOAD = (MARKED_FAILED, MARKED_SUCCESS, DELETED)
ROWS = [row(datetime.now(UTC).date(), product, 10, 1) for product in range(3)]


@dataclass
class EndedRuns:
    """The feeds whose publish runs end badly. `first`: the id of each feed's first run."""

    proxied_stack: ProxiedStack
    stack: StackClient
    first: dict[str, str] = field(default_factory=dict)

    def land(self, folder: Path) -> None:
        """Land one snapshot in each feed, and end its publish run in the feed's way."""
        self.proxied_stack.add_fault(
            {"match": {"job_id": f"dedup_clone-{FAILED}-.*-load-"}, "effect": "error", "reason": "invalid"}
        )
        for feed in STOPPED_IN_LOAD:
            match = {"job_id": f"dedup_clone-{feed}-.*-load-"}
            self.proxied_stack.add_fault({"match": match, "effect": "queue", "times": 100})
        hold = self.proxied_stack.proxies[Service.STORAGE].hold(_begins_dedup, HoldPhase.BEFORE)
        self.first = {feed: self.stack.land(feed, 1, ROWS, folder / feed) for feed in ENDED_BADLY}
        assert hold.wait(TIMEOUT_S)
        port = int(self.proxied_stack.proxies[Service.STORAGE].url.rsplit(":", 1)[1])
        sender = victim_processes.find_sender(self.proxied_stack, hold.client_port, port)
        victim_processes.kill(victim_processes.find_executor_worker(self.proxied_stack, sender))
        hold.drop()
        for feed in STOPPED_IN_LOAD:
            wait_for(lambda f=feed: "-load-" in str(self.proxied_stack.current(f).intent), f"[{feed}] loads")
        self.mark(MARKED_FAILED, "failed")
        self.mark(MARKED_SUCCESS, "success")
        self.mark(DELETED, "failed")  # Airflow deletes no running run
        assert self.stack.ask("DELETE", self.path(DELETED)).ok
        assert self.stack.wait_for_run(FAILED, self.first[FAILED]) == "failed"
        self.proxied_stack.clear_faults()

    def path(self, feed: str) -> str:
        return f"api/v2/dags/{feed}_publish/dagRuns/{self.first[feed]}"

    def mark(self, feed: str, state: str) -> None:
        answer = self.stack.ask("PATCH", self.path(feed), body={"state": state})
        assert answer.ok, answer.text

    def let_time_pass(self) -> None:
        """Set the end of the ended runs back by the pause before their first repeat."""
        statement = "UPDATE dag_run SET end_date = end_date - interval '10 minutes' WHERE dag_id = :dag_id"
        engine = sqlalchemy.create_engine(postgres.url(self.proxied_stack.layout))
        with engine.begin() as connection:
            for feed in REPEATED_LATER:
                connection.execute(sqlalchemy.text(statement), {"dag_id": f"{feed}_publish"})
        engine.dispose()

    def look_again(self, *feeds: str) -> None:
        """End the active run of each watch DAG, as its time limit does, and wait until the next one has looked."""
        before = {feed: {run["dag_run_id"] for run in self.watch_runs(feed)} for feed in feeds}
        for feed in feeds:
            for run in self.watch_runs(feed):
                if run["state"] == "running":
                    path = f"api/v2/dags/{feed}_watch/dagRuns/{run['dag_run_id']}"
                    self.stack.ask("PATCH", path, body={"state": "success"})
        for feed in feeds:
            wait_for(lambda f=feed: self._has_looked(f, before[f]), f"[{feed}_watch] has looked again")

    def watch_runs(self, feed: str) -> list[dict[str, Any]]:
        runs: list[dict[str, Any]] = self.stack.airflow.get(f"dags/{feed}_watch/dagRuns?limit=100")["dag_runs"]
        return runs

    def _has_looked(self, feed: str, before: set[str]) -> bool:
        new = {run["dag_run_id"] for run in self.watch_runs(feed)} - before
        states = [self.stack.task_states(feed, run_id, dag="watch").get("notice_delivery") for run_id in new]
        return any(state in ("deferred", "success") for state in states)

    def ask(self, feed: str, run_id: str) -> dict[str, Any]:
        """What Airflow answers a task about the run."""
        asked = {"asked_dag": f"{feed}_publish", "asked_run": run_id, "scheduled_dag": f"{feed}_watch"}
        asking_run = self.stack.started_run_id(self.stack.trigger(ASKING_DAG, **asked))
        wait_for(lambda: self.stack.final_state(ASKING_DAG, asking_run), f"[{ASKING_DAG}] has asked")
        path = f"dags/{ASKING_DAG}/dagRuns/{asking_run}/taskInstances/{ASKING_TASK}/xcomEntries/return_value"
        value = self.stack.airflow.get(path)["value"]
        found: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
        return found


def _begins_dedup(request: ProxiedRequest) -> bool:
    name = request.object_name
    return request.is_upload and name.startswith(f"{KILLED}/") and name.endswith("/dedup_started")


@pytest.fixture(scope="module")
def watchdog(stack: StackClient) -> Watchdog:
    return Watchdog(stack)


@pytest.fixture(scope="module")
def ended(
    proxied_stack: ProxiedStack, stack: StackClient, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EndedRuns]:
    runs = EndedRuns(proxied_stack, stack)
    try:
        runs.land(tmp_path_factory.mktemp("ended"))
        yield runs
    finally:
        proxied_stack.clear_faults()


@pytest.fixture(scope="module")
def repeated(ended: EndedRuns, watchdog: Watchdog) -> EndedRuns:
    """The watchdog has checked, and the pause has passed."""
    watchdog.run_watchdog()
    ended.look_again(*REPEATED_LATER, DELETED)
    for feed in REPEATED_LATER:
        assert ended.stack.run_ids(feed) == [ended.first[feed]], "its repeat is not due yet"
    ended.let_time_pass()
    ended.look_again(*REPEATED_LATER)
    return ended


@pytest.mark.parametrize("feed", [f for f in ENDED_BADLY if f != KILLED])
def test_the_watchdog_tells_at_its_next_check(repeated: EndedRuns, watchdog: Watchdog, feed: str) -> None:
    assert watchdog.alerts(feed)[:1] == [f"WARNING: {AT_RISK}"]


@pytest.mark.parametrize("feed", REPEATED_LATER)
def test_a_run_that_ended_is_repeated_and_its_delivery_published(repeated: EndedRuns, feed: str) -> None:
    repeat = f"{repeated.first[feed]}__2"
    wait_for(lambda: repeat in repeated.stack.run_ids(feed), f"run [{repeat}] of [{feed}] was started")
    assert repeated.stack.wait_for_run(feed, repeat) == "success", repeated.stack.task_states(feed, repeat)
    assert repeated.stack.rows(feed) == as_tuples(ROWS)


def test_a_deleted_run_is_started_again_at_once(repeated: EndedRuns) -> None:
    stack, run_id = repeated.stack, repeated.first[DELETED]
    assert stack.wait_for_run(DELETED, run_id) == "success", stack.task_states(DELETED, run_id)
    assert stack.run_ids(DELETED) == [run_id]
    assert stack.rows(DELETED) == as_tuples(ROWS)


def test_a_killed_worker_is_nobodys_business_because_airflow_tries_the_task_again(
    repeated: EndedRuns, watchdog: Watchdog
) -> None:
    stack, run_id = repeated.stack, repeated.first[KILLED]
    assert stack.wait_for_run(KILLED, run_id) == "success", stack.task_states(KILLED, run_id)
    tries = {task.task_id: task.try_number for task in stack.airflow.tasks(f"{KILLED}_publish", run_id)}
    assert tries["dedup_snapshot"] == 2
    assert stack.rows(KILLED) == as_tuples(ROWS)
    assert watchdog.alerts(KILLED) == []


@pytest.mark.parametrize(("feed", "state"), [(FAILED, "failed"), (MARKED_SUCCESS, "success")])
def test_airflow_answers_tasks_as_its_double_does(
    repeated: EndedRuns, monkeypatch: pytest.MonkeyPatch, feed: str, state: str
) -> None:
    run_id = repeated.first[feed]
    found = repeated.ask(feed, run_id)
    run = repeated.stack.airflow.get(f"dags/{feed}_publish/dagRuns/{run_id}")
    last = found["the last one"]["dag_run"]["run_id"][1].strip("'")
    (watched,) = (run for run in repeated.watch_runs(feed) if run["dag_run_id"] == last)
    airflow, now = TaskApi(monkeypatch), datetime.now(UTC)
    airflow.unknown.add("none")
    airflow.add_run(f"{feed}_publish", run_id, state, end_date=now, conf=run["conf"])
    airflow.add_run(f"{feed}_watch", last, "success", end_date=now, logical_date=now, conf=watched["conf"])
    assert found == answers(f"{feed}_publish", run_id, f"{feed}_watch")
    assert sorted(run) == sorted(DAGRunResponse.model_fields), "the callback of a missed deadline gets the same"
    assert run["conf"] == {**run["conf"], "snapshot_id": "1", "marker_generation": run_id.split("__")[2]}
    assert (run["dag_run_id"], run["state"]) == (run_id, state)
    assert datetime.fromisoformat(run["queued_at"]).tzinfo


@pytest.mark.parametrize("feed", [f for f in ENDED_BADLY if f != KILLED])
def test_the_watchdog_tells_that_it_is_over(repeated: EndedRuns, watchdog: Watchdog, feed: str) -> None:
    watchdog.run_watchdog_until(feed, f"RECOVERED: {AT_RISK}")
    assert watchdog.alerts(feed) == [f"WARNING: {AT_RISK}", f"RECOVERED: {AT_RISK}"]
