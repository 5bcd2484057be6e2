"""Five ways to end a publish run badly, on the real stack: its delivery is published all the same, and who is told.

All five go on side by side. The ten minutes between a run's end and its repeat do not pass: the end that Airflow has
stored is set back by ten minutes. And instead of five minutes until the watch DAG looks again, its run is ended.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy

from devstack.stack import postgres
from testkit.airflow import TaskApi
from testkit.holding_proxy import HoldPhase, ProxiedRequest, Service
from testkit.stack import Stack
from testkit.stack_snapshots import as_tuples, row
from testkit.waiting import TIMEOUT_S, wait_for
from tests.e2e import victims
from tests.e2e.alerts import LATE, Watchdog
from tests.e2e.feeds import DELETED, ENDED_BADLY, FAILED, KILLED, MARKED_FAILED, MARKED_SUCCESS, TODAY
from tests.e2e.in_airflow import ASKING_DAG, ASKING_TASK, answers

pytestmark = pytest.mark.timeout(900)

REPEATED_LATER = (FAILED, MARKED_FAILED, MARKED_SUCCESS)
STOPPED_IN_LOAD = (MARKED_FAILED, MARKED_SUCCESS, DELETED)
ROWS = [row(TODAY, product, 10, 1) for product in range(3)]


class EndedRuns:
    """The feeds whose publish runs end badly. `first`: the id of each feed's first run."""

    def __init__(self, stack: Stack) -> None:
        self.stack = stack
        self.first: dict[str, str] = {}

    def land(self) -> None:
        """Land one snapshot in each feed, and end its publish run in the feed's way."""
        hold = self.stack.proxies[Service.STORAGE].hold(_begins_dedup, HoldPhase.BEFORE)
        queued = "|".join(STOPPED_IN_LOAD)
        with (
            self.stack.fault(f"dedup_clone-{FAILED}-.*-load-", "error", reason="invalid", times=1),
            self.stack.fault(f"dedup_clone-({queued})-.*-load-", "queue"),
        ):
            self.first = {feed: self.stack.land(feed, 1, ROWS) for feed in ENDED_BADLY}
            assert hold.wait(TIMEOUT_S)
            sender = victims.find_sender(self.stack, hold)
            victims.kill(victims.find_executor_worker(self.stack, sender))
            hold.drop()
            for feed in STOPPED_IN_LOAD:
                wait_for(lambda f=feed: "-load-" in str(self.stack.current(f)["intent"]), f"[{feed}] loads")
            self.mark(MARKED_FAILED, "failed")
            self.mark(MARKED_SUCCESS, "success")
            self.mark(DELETED, "failed")  # Airflow deletes no running run
            assert self.stack.ask("DELETE", self.path(DELETED)).ok
            assert self.stack.wait_for_run(FAILED, self.first[FAILED]) == "failed"

    def path(self, feed: str) -> str:
        return f"api/v2/dags/{feed}_publish/dagRuns/{self.first[feed]}"

    def mark(self, feed: str, state: str) -> None:
        answer = self.stack.ask("PATCH", self.path(feed), body={"state": state})
        assert answer.ok, answer.text

    def let_time_pass(self) -> None:
        """Set the end of the ended runs back by the pause before their first repeat."""
        statement = "UPDATE dag_run SET end_date = end_date - interval '10 minutes' WHERE dag_id = :dag_id"
        engine = sqlalchemy.create_engine(postgres.url(self.stack.layout))
        with engine.begin() as connection:
            for feed in REPEATED_LATER:
                connection.execute(sqlalchemy.text(statement), {"dag_id": f"{feed}_publish"})
        engine.dispose()

    def look_again(self, *feeds: str) -> None:
        """End the active run of each watch DAG, as its time limit does, and wait until the next one has looked."""
        before = {feed: {run["dag_run_id"] for run in self.stack.runs(feed, "watch")} for feed in feeds}
        for feed in feeds:
            for run in self.stack.runs(feed, "watch"):
                if run["state"] == "running":
                    path = f"api/v2/dags/{feed}_watch/dagRuns/{run['dag_run_id']}"
                    self.stack.ask("PATCH", path, body={"state": "success"})
        for feed in feeds:
            wait_for(lambda f=feed: self._has_looked(f, before[f]), f"[{feed}_watch] has looked again")

    def _has_looked(self, feed: str, before: set[str]) -> bool:
        new = {run["dag_run_id"] for run in self.stack.runs(feed, "watch")} - before
        states = [self.stack.task_states(feed, run_id, "watch").get("notice_delivery") for run_id in new]
        return any(state in ("deferred", "success") for state in states)

    def ask(self, feed: str) -> dict[str, Any]:
        """What Airflow answers a task about the feed's first run."""
        asked = {"asked_dag": f"{feed}_publish", "asked_run": self.first[feed], "scheduled_dag": f"{feed}_watch"}
        asking_run = self.stack.run(ASKING_DAG, **asked)
        path = f"dags/{ASKING_DAG}/dagRuns/{asking_run}/taskInstances/{ASKING_TASK}/xcomEntries/return_value"
        value = self.stack.airflow.get(path)["value"]
        found: dict[str, Any] = json.loads(value) if isinstance(value, str) else value
        return found


def _begins_dedup(request: ProxiedRequest) -> bool:
    name = request.object_name
    return request.is_upload and name.startswith(f"{KILLED}/") and name.endswith("/dedup_started")


@pytest.fixture(scope="module")
def ended(stack: Stack) -> EndedRuns:
    runs = EndedRuns(stack)
    runs.land()
    return runs


@pytest.fixture(scope="module")
def repeated(ended: EndedRuns, watchdog: Watchdog) -> EndedRuns:
    """The watchdog has checked, and the pause has passed."""
    watchdog.check()
    ended.look_again(*REPEATED_LATER, DELETED)
    for feed in REPEATED_LATER:
        assert ended.stack.run_ids(feed) == [ended.first[feed]], "its repeat is not due yet"
    ended.let_time_pass()
    ended.look_again(*REPEATED_LATER)
    return ended


@pytest.mark.parametrize("feed", [f for f in ENDED_BADLY if f != KILLED])
def test_the_watchdog_tells_at_its_next_check(repeated: EndedRuns, watchdog: Watchdog, feed: str) -> None:
    assert watchdog.alerts(feed)[:1] == [f"WARNING: {LATE}"]


@pytest.mark.parametrize("feed", REPEATED_LATER)
def test_a_run_that_ended_is_repeated_and_its_delivery_published(repeated: EndedRuns, feed: str) -> None:
    repeat = f"{repeated.first[feed]}__2"
    wait_for(lambda: repeat in repeated.stack.run_ids(feed), f"run [{repeat}] of [{feed}] was started")
    repeated.stack.assert_published(feed, repeat)
    assert repeated.stack.rows(feed) == as_tuples(ROWS)


def test_a_deleted_run_is_started_again_at_once(repeated: EndedRuns) -> None:
    run_id = repeated.first[DELETED]
    repeated.stack.assert_published(DELETED, run_id)
    assert repeated.stack.run_ids(DELETED) == [run_id]
    assert repeated.stack.rows(DELETED) == as_tuples(ROWS)


def test_a_killed_worker_is_nobodys_business_because_airflow_tries_the_task_again(
    repeated: EndedRuns, watchdog: Watchdog
) -> None:
    run_id = repeated.first[KILLED]
    repeated.stack.assert_published(KILLED, run_id)
    tries = {task.task_id: task.try_number for task in repeated.stack.tasks(KILLED, run_id)}
    assert tries["dedup_snapshot"] == 2
    assert repeated.stack.rows(KILLED) == as_tuples(ROWS)
    assert watchdog.alerts(KILLED) == []


@pytest.mark.parametrize(("feed", "state"), [(FAILED, "failed"), (MARKED_SUCCESS, "success")])
def test_airflow_answers_tasks_as_its_double_does(
    repeated: EndedRuns, monkeypatch: pytest.MonkeyPatch, feed: str, state: str
) -> None:
    run_id = repeated.first[feed]
    found = repeated.ask(feed)
    run = repeated.stack.airflow.get(f"dags/{feed}_publish/dagRuns/{run_id}")
    last = found["the last one"]["dag_run"]["run_id"][1].strip("'")
    (watched,) = (run for run in repeated.stack.runs(feed, "watch") if run["dag_run_id"] == last)
    airflow, now = TaskApi(monkeypatch), datetime.now(UTC)
    airflow.unknown.add("none")
    airflow.add_run(f"{feed}_publish", run_id, state, end_date=now, conf=run["conf"])
    airflow.add_run(f"{feed}_watch", last, "success", end_date=now, logical_date=now, conf=watched["conf"])
    assert found == answers(f"{feed}_publish", run_id, f"{feed}_watch")
    assert run["conf"] == {**run["conf"], "snapshot_id": "1", "marker_generation": run_id.split("__")[2]}
    assert (run["dag_run_id"], run["state"]) == (run_id, state)
    assert datetime.fromisoformat(run["queued_at"]).tzinfo


@pytest.mark.parametrize("feed", [f for f in ENDED_BADLY if f != KILLED])
def test_the_watchdog_tells_that_it_is_over(repeated: EndedRuns, watchdog: Watchdog, feed: str) -> None:
    watchdog.check_until(feed, f"RECOVERED: {LATE}")
    assert watchdog.alerts(feed) == [f"WARNING: {LATE}", f"RECOVERED: {LATE}"]
