"""Uses a local stack as people do: lands snapshots, triggers and approves runs, reads tables and state."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from devstack.connection import Connection
from devstack.demo.airflow_api import AirflowApi, DemoError, Task
from devstack.http_calls import Answer, Unreachable, call
from devstack.stack import client_config, health, ports
from devstack.stack.layout import Layout
from devstack.stack.names_and_logins import LOGINS
from devstack.stack.parts import all_parts
from devstack.stack.supervisord import PartState, Supervisor
from testkit.holding_proxy import HoldingProxy, Service
from testkit.server_clients import ControlledStandIn
from testkit.stack_runs import OF_ALL_FEEDS, RUN_POLL_S, RUN_TIMEOUT_S, Question, dag_id_of
from testkit.stack_snapshots import COLUMNS, SCHEMA, Row, as_tuples, files_of_snapshot
from testkit.waiting import wait_for

# Within this time the scheduler sees that a process has ended. No request tells whether it has seen this.
SCHEDULER_NOTICES_S = 4.0


class Stack:
    """A running stack. Its processes reach storage and BigQuery through `proxies`; this process does so directly.

    A part of the stack is a program that supervisord runs, such as Airflow's scheduler (devstack/stack/parts.py).
    """

    def __init__(self, layout: Layout, proxies: Mapping[Service, HoldingProxy] | None = None) -> None:
        self.layout = layout
        self.proxies = proxies or {}
        self.variables = client_config.read(layout.stack_env)
        self.connection = Connection.from_variables(self.variables)
        self.airflow = AirflowApi(self.connection)
        self.supervisor = Supervisor(layout.supervisor_socket)
        self.is_stopped = False

    @cached_property
    def storage(self) -> Any:
        return self.connection.storage_client()

    @cached_property
    def landing(self) -> Any:
        return self.storage.bucket(self.connection.landing_bucket)

    @cached_property
    def bigquery(self) -> Any:
        return self.connection.bigquery_client()

    @cached_property
    def stand_in(self) -> ControlledStandIn:
        return ControlledStandIn(self.bigquery)

    # The parts of the stack.

    def part_states(self) -> dict[str, PartState]:
        """The state of each part of the stack, by the part's name."""
        return self.supervisor.part_states()

    @contextmanager
    def stopped(self, *parts: str) -> Iterator[None]:
        """Stop parts as an operator would, and start them again after the `with` block."""
        for part in parts:
            self.supervisor.stop(part)
        try:
            yield
        finally:
            for part in parts:
                self.supervisor.start(part)

    def wait_until_healthy(self) -> None:
        wait_for(self._is_healthy, "every part of the stack is healthy", RUN_TIMEOUT_S)

    def _is_healthy(self) -> bool:
        stack_ports = ports.read_saved(self.layout.ports_file)
        if stack_ports is None:
            return False
        try:
            states = self.part_states()
            return all(health.is_healthy(part, states) for part in all_parts(self.layout, stack_ports))
        except (OSError, ValueError):
            return False

    @contextmanager
    def fault(self, job_id: str, effect: str, **fault: Any) -> Iterator[None]:
        """Let BigQuery jobs whose id matches fail or wait in the `with` block. It ends all faults, also other ones."""
        self.stand_in.add_fault({"match": {"job_id": job_id}, "effect": effect, "times": 1000, **fault})
        try:
            yield
        finally:
            with suppress(ConnectionError):  # a stand-in that was killed has no faults
                self.stand_in.clear_faults()

    # Landing.

    def land(self, feed: str, snapshot_id: int, rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> str:
        """Land one delivery. Returns the id of the publish run that it must get."""
        return self.land_at_once(feed, {snapshot_id: rows}, schema)[0]

    def land_at_once(self, feed: str, snapshots: Mapping[int, Sequence[Row]], schema: pa.Schema = SCHEMA) -> list[str]:
        """Land snapshots: all files first, then all markers in parallel. Returns the ids of their publish runs.

        Of deliveries that are found together only the newest gets its run, which publishes all.
        """
        for snapshot_id, rows in snapshots.items():
            for name, content in files_of_snapshot(rows, schema).items():
                self.landing.blob(f"{feed}/snapshot_id={snapshot_id}/{name}").upload_from_string(content)
        with ThreadPoolExecutor(len(snapshots)) as pool:
            return list(pool.map(lambda snapshot_id: self.mark(feed, snapshot_id), snapshots))

    def mark(self, feed: str, snapshot_id: int) -> str:
        """Upload the marker of a snapshot. Returns the id of the publish run of the delivery."""
        blob = self.landing.blob(f"{feed}/snapshot_id={snapshot_id}/_SUCCESS")
        blob.upload_from_string("")
        return f"publish__{snapshot_id}__{blob.generation}"

    # Airflow.

    def ask(self, method: str, path: str, *, body: Any = None, user: str | None = "admin") -> Answer:
        """Send one request to Airflow, with the login of `user`; None for a request without login."""
        token = self._token(user) if user else None
        return call(method, f"{self.connection.airflow_url}/{path}", body=body, token=token, timeout_s=60)

    @cache  # noqa: B019 - few stacks a session
    def _token(self, user: str) -> str:
        login = {"username": user, "password": LOGINS[user]}
        return str(call("POST", f"{self.connection.airflow_url}/auth/token", body=login).json()["access_token"])

    def trigger(self, dag_id: str, *, user: str = "admin", **parameters: Any) -> Answer:
        """Trigger a run of the DAG with these parameters, as `user`. Returns Airflow's answer."""
        body = {"logical_date": None, "conf": parameters}
        return self.ask("POST", f"api/v2/dags/{dag_id}/dagRuns", body=body, user=user)

    def start(self, dag_id: str, **parameters: Any) -> str:
        """Trigger a run of the DAG as its form in Airflow does. Returns the run's id."""
        answer = self.trigger(dag_id, **parameters)
        assert answer.ok, answer.text
        return str(answer.json()["dag_run_id"])

    def approve(self, feed: str, dag: str, **parameters: Any) -> str:
        """Trigger a run of the DAG, approve it, and wait until it has succeeded. Returns the text of the question."""
        form = {"feed": feed, **parameters} if dag in OF_ALL_FEEDS else parameters
        question = self.wait_for_question(feed, self.start(dag_id_of(feed, dag), **form), dag)
        assert question.decide("Approve") == "success", self.task_states(feed, question.run_id, dag)
        return question.text

    def wait_for_question(self, feed: str, run_id: str, dag: str = "publish") -> Question:
        """Wait until the run waits for its approval and an answer is safe.

        Airflow shows the question a moment before the task waits. An answer given in that moment is stored, but never
        reaches the task, and Airflow refuses all later answers. Once the task waits, its process ends. If the task is
        answered before the scheduler has seen that end, the scheduler starts the task again, and it asks again.
        """

        def waiting() -> str | None:
            states = self.task_states(feed, run_id, dag)
            return next((task for task, state in states.items() if state == "awaiting_input"), None)

        what = f"run [{run_id}] of [{dag_id_of(feed, dag)}] waits for its approval"
        task_id = wait_for(waiting, what, RUN_TIMEOUT_S)
        since = time.monotonic()
        wait_for(lambda: time.monotonic() - since > SCHEDULER_NOTICES_S and waiting(), what)
        path = f"api/v2/dags/{dag_id_of(feed, dag)}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/-1/hitlDetails"
        text = str(self.ask("GET", path).json()["body"])
        return Question(self, feed, dag, run_id, task_id, path, text)

    def _ask_airflow(self, request: Callable[[AirflowApi], Any]) -> Any:
        """The result of `request`; None if Airflow does not answer, for example because its API server was killed."""
        assert not self.is_stopped, "The stack is stopped."
        with suppress(DemoError, Unreachable, OSError, ValueError):
            return request(self.airflow)

    def final_state(self, dag_id: str, run_id: str) -> str | None:
        """The final state of a run; None while it runs, and if Airflow does not answer."""
        state = self._ask_airflow(lambda api: api.run_state(dag_id, run_id))
        return state if state in ("success", "failed") else None

    def wait_for_run(self, feed: str, run_id: str, dag: str = "publish", *, timeout_s: float = RUN_TIMEOUT_S) -> str:
        """Wait until a run has ended, and return its final state."""
        dag_id = dag_id_of(feed, dag)
        state: str = wait_for(
            lambda: self.final_state(dag_id, run_id),
            f"run [{run_id}] of [{dag_id}] has ended",
            timeout_s,
            poll_interval_s=RUN_POLL_S,
        )
        return state

    def run(self, dag_id: str, **parameters: Any) -> str:
        """Run a DAG that belongs to no feed, and wait until the run has ended. Returns the run's id."""
        run_id = self.start(dag_id, **parameters)
        wait_for(lambda: self.final_state(dag_id, run_id), f"run [{run_id}] of [{dag_id}] has ended", RUN_TIMEOUT_S)
        return run_id

    def assert_published(self, feed: str, *run_ids: str) -> None:
        """Wait until the publish runs have ended. All of them must have succeeded."""
        for run_id in run_ids:
            assert self.wait_for_run(feed, run_id) == "success", self.task_states(feed, run_id)

    def tasks(self, feed: str, run_id: str, dag: str = "publish") -> list[Task]:
        """The task instances of a run; none if Airflow does not answer."""
        return self._ask_airflow(lambda api: api.tasks(dag_id_of(feed, dag), run_id)) or []

    def task_states(self, feed: str, run_id: str, dag: str = "publish") -> dict[str, str | None]:
        return {task.task_id: task.state for task in self.tasks(feed, run_id, dag)}

    def task_log(self, feed: str, run_id: str, task_id: str, dag: str = "publish") -> str:
        """The log of the task's last try."""
        task = next(t for t in self.tasks(feed, run_id, dag) if t.task_id == task_id)
        return "\n".join(self.airflow.log_lines(dag_id_of(feed, dag), run_id, task))

    def runs(self, feed: str, dag: str = "publish") -> list[dict[str, Any]]:
        """All runs of one of the feed's DAGs, as Airflow describes them."""
        runs: list[dict[str, Any]] = []
        while True:
            page = self.airflow.get(f"dags/{dag_id_of(feed, dag)}/dagRuns?limit=100&offset={len(runs)}")
            runs += page["dag_runs"]
            if not page["dag_runs"] or len(runs) >= page["total_entries"]:
                return runs

    def run_ids(self, feed: str) -> list[str]:
        """The sorted ids of all publish runs of the feed."""
        return sorted(run["dag_run_id"] for run in self.runs(feed))

    # The page, state and tables.

    def on_the_page(self, feed: str, *, user: str = "admin") -> dict[str, Any]:
        """What the page Snapshots shows of a feed."""
        answer = self.ask("GET", f"dedup-clone/api/feeds/{feed}", user=user)
        assert answer.ok, answer.text
        view: dict[str, Any] = answer.json()
        return view

    def wait_for_page(self, feed: str, shows: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until `shows` is true of the page, which may be late because it caches. Return what the page shows."""
        shown: dict[str, Any] = wait_for(
            lambda: view if shows(view := self.on_the_page(feed)) else None, f"the page of [{feed}] shows {what}"
        )
        return shown

    def state(self, name: str) -> Any:
        """The JSON of an object in the state bucket; None if there is no such object."""
        blob = self.storage.bucket(self.connection.state_bucket).get_blob(name)
        return None if blob is None else json.loads(blob.download_as_bytes())

    def state_names(self, prefix: str) -> list[str]:
        """The sorted names of the objects in the state bucket that begin with `prefix`."""
        return sorted(blob.name for blob in self.storage.list_blobs(self.connection.state_bucket, prefix=prefix))

    def current(self, feed: str) -> dict[str, Any]:
        """What CURRENT says: above all the live generation, and the lease as `intent`."""
        return self.state(f"{feed}/CURRENT") or {"generation": None, "intent": None}

    def ledger(self, feed: str) -> list[dict[str, Any]]:
        """The ledger's records, those of lower generations first."""
        return [self.state(name) for name in self.state_names(f"{feed}/ledger/")]

    def registered(self, feed: str) -> list[str]:
        """The names of the registered deliveries: the snapshot's id and the marker's generation."""
        return [Path(name).stem for name in self.state_names(f"{feed}/arrivals/")]

    def query(self, sql: str) -> list[Row]:
        return [dict(row.items()) for row in self.bigquery.query_and_wait(sql)]

    def rows(self, feed: str) -> list[tuple[Any, ...]]:
        """The sorted rows of target, as tuples in the order of COLUMNS."""
        return as_tuples(self.query(f"SELECT {', '.join(COLUMNS)} FROM warehouse.{feed}"))
