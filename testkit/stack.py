"""Starts a local stack, and uses it as people do: lands snapshots, triggers and approves runs, reads tables and state.

The stack's requests to storage and BigQuery pass through proxies (`holding_proxy.py`), which can hold a request until a
process has been killed. The stack has its own files and ports, and its own copy of the DAGs, so it can run beside a
stack that `make up` started.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import requests

from devstack.connection import Connection
from devstack.demo.airflow_api import AirflowApi, DemoError, Task
from devstack.http_calls import Answer, Unreachable, call
from devstack.stack import client_config, health, lifecycle, ports
from devstack.stack.layout import CHECKOUT, DAGS_FOLDER_VARIABLE, LOCAL_DIR_VARIABLE, Layout
from devstack.stack.names_and_logins import LOGINS
from devstack.stack.parts import all_parts
from devstack.stack.process_environment import BIGQUERY_PROXY_VARIABLE, STORAGE_PROXY_VARIABLE
from devstack.stack.supervisord import PartState, Supervisor
from testkit.controlled_stand_in import ControlledStandIn
from testkit.holding_proxy import HoldingProxy, Service
from testkit.waiting import wait_for

Row = dict[str, Any]
COLUMNS = ("date", "product_id", "store_id", "attribute_id", "attr_value", "update_id")
SCHEMA = pa.schema([("date", pa.date32()), *[(name, pa.int64()) for name in COLUMNS[1:]]])
OF_ALL_FEEDS = ("bootstrap", "content_audit", "erase", "rebuild", "retire")  # their forms name the feed
RUN_TIMEOUT_S = 1200.0
RUN_POLL_S = 1.0  # many tests follow runs at once, and every request takes time from the runs
# Within this time the scheduler sees that a process has ended. No request tells whether it has seen this.
SCHEDULER_NOTICES_S = 4.0


def dag_id_of(feed: str, dag: str) -> str:
    """The id of the feed's DAG, or of the DAG for all feeds."""
    return f"dedup_clone_{dag}" if dag in OF_ALL_FEEDS else f"{feed}_{dag}"


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
            with suppress(requests.ConnectionError):  # a stand-in that was killed has no faults
                self.stand_in.clear_faults()

    # Landing.

    def land(self, feed: str, snapshot_id: int, rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> str:
        """Land one delivery. Returns the id of the publish run that it must get."""
        return self.land_at_once(feed, {snapshot_id: rows}, schema)[0]

    def land_at_once(self, feed: str, snapshots: Mapping[int, Sequence[Row]], schema: pa.Schema = SCHEMA) -> list[str]:
        """Land snapshots: all files first, then all markers in parallel. Returns the ids of their publish runs."""
        for snapshot_id, rows in snapshots.items():
            for name, content in files_of_snapshot(rows, schema).items():
                self.landing.blob(f"{feed}/snapshot_id={snapshot_id}/{name}").upload_from_string(content)
        with ThreadPoolExecutor(len(snapshots)) as pool:
            return list(pool.map(lambda snapshot_id: self.mark(feed, snapshot_id), snapshots))

    def mark(self, feed: str, snapshot_id: int) -> str:
        """Upload the marker of a snapshot. Returns the id of the publish run that the delivery must get."""
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


@dataclass(frozen=True)
class Question:
    """The approval for which a run waits. `path`: of the question in Airflow's API. `text`: what it shows."""

    stack: Stack
    feed: str
    dag: str
    run_id: str
    task_id: str
    path: str
    text: str

    def answer(self, option: str, *, user: str = "admin") -> int:
        """Choose an option. Returns the HTTP status of Airflow's answer."""
        body = {"chosen_options": [option], "params_input": {}}
        return self.stack.ask("PATCH", self.path, body=body, user=user).status

    def wait_for_end(self, option: str) -> str:
        """Wait until the run has ended after the answer `option`, and return its final state.

        A task that was answered before the scheduler knew that it waits asks again, and is answered again. Only a
        program answers so fast.
        """

        def final_state() -> str | None:
            state = self.stack.final_state(dag_id_of(self.feed, self.dag), self.run_id)
            asks_again = self.stack.task_states(self.feed, self.run_id, self.dag).get(self.task_id) == "awaiting_input"
            if state is None and asks_again:
                self.answer(option)
            return state

        what = f"run [{self.run_id}] of [{self.feed}_{self.dag}] has ended"
        state: str = wait_for(final_state, what, RUN_TIMEOUT_S, poll_interval_s=RUN_POLL_S)
        return state

    def decide(self, option: str) -> str:
        """Choose an option, wait until the run has ended, and return its final state."""
        assert self.answer(option) == 200
        return self.wait_for_end(option)


def row(day: date, product: int, value: int, snapshot_id: int) -> Row:
    """A row of the worked example's table."""
    return dict(zip(COLUMNS, (day, product, 2072, 1, value, snapshot_id), strict=True))


def as_tuples(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """These rows in the form of Stack.rows."""
    return sorted(tuple(r[name] for name in COLUMNS) for r in rows)


def files_of_snapshot(rows: Sequence[Row], schema: pa.Schema = SCHEMA) -> dict[str, bytes]:
    """The files of a snapshot by name. Each date has two, in row groups of at most 100.

    The layout differs from that of devstack.producer, because files of other producers differ too.
    """
    files = {}
    for day in sorted({r["date"] for r in rows}):
        rows_of_day = [r for r in rows if r["date"] == day]
        for number in range(2):
            half = pa.Table.from_pylist(rows_of_day[number::2], schema=schema)
            sink = io.BytesIO()
            pq.write_table(half, sink, compression="snappy", row_group_size=100)
            files[f"date={day}/{number}.parquet"] = sink.getvalue()
    return files


@contextmanager
def running_stack(folder: Path, prepare_dags: Callable[[Path], None]) -> Iterator[Stack]:
    """Start a new stack, yield it once Airflow knows the DAGs of all feeds, and stop it at the end.

    `folder`: the folder of all its files, which must be empty. `prepare_dags`: is called with the folder of the copied
    DAGs before anything starts, and may change it.
    """
    dags = folder / "dags"
    shutil.copytree(CHECKOUT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(CHECKOUT / "sql", dags / "sql")
    prepare_dags(dags)
    environ = {**os.environ, LOCAL_DIR_VARIABLE: str(folder), DAGS_FOLDER_VARIABLE: str(dags)}
    environ["DEDUP_CLONE_SPARK_JOBS"] = str(CHECKOUT / "spark_jobs")
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        os.environ.pop(variable, None)  # clients would send requests for 127.0.0.1 to the user's own HTTP proxy
    layout = Layout.from_environment(environ)
    stack_ports = ports.choose(layout.ports_file).ports
    proxies = {
        Service.STORAGE: HoldingProxy(Service.STORAGE, stack_ports.gcs_url),
        Service.BIGQUERY: HoldingProxy(Service.BIGQUERY, stack_ports.bigquery_url),
    }
    environ[STORAGE_PROXY_VARIABLE] = proxies[Service.STORAGE].url
    environ[BIGQUERY_PROXY_VARIABLE] = proxies[Service.BIGQUERY].url
    for proxy in proxies.values():
        proxy.start()
    try:
        lifecycle.up(layout, environ, print)
        stack = Stack(layout, proxies)
        wait_for_dags(stack, *(path.stem for path in (dags / "feeds").glob("*.yaml")))
        yield stack
        stack.is_stopped = True  # threads that wait for something give up
    finally:
        lifecycle.down(layout, print)
        for proxy in proxies.values():
            proxy.stop()


def wait_for_dags(stack: Stack, *feeds: str) -> None:
    """Wait until Airflow knows the DAGs of the feeds, and none of them is paused."""
    dag_ids = [f"{feed}_{dag}" for feed in feeds for dag in ("watch", "publish", "rollback")]
    for dag_id in dag_ids:
        wait_for(
            partial(_is_active, stack, dag_id), f"Airflow knows [{dag_id}]", RUN_TIMEOUT_S, poll_interval_s=RUN_POLL_S
        )


def _is_active(stack: Stack, dag_id: str) -> bool:
    return stack.airflow.is_paused(dag_id) is False
