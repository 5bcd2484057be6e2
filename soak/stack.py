"""The local stack as the long runs use it: started behind gates, with a folder of feeds of its own."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from dedup_clone.state.arrivals import Arrivals
from dedup_clone.state.current import Current, CurrentFile
from dedup_clone.state.ledger import Ledger, LedgerRecord
from dedup_clone.state.manifests import Manifests
from dedup_clone.state.staging import Staging, StagingFile
from dedup_clone.state.store import ObjectStore
from devstack.connection import Connection
from devstack.demo.airflow_api import AirflowApi, Task
from devstack.demo.errors import DemoFailed
from devstack.demo.follow import publish_dag, watch_dag
from devstack.http_calls import Unreachable, call
from devstack.stack import client_tools, health, lifecycle, ports
from devstack.stack.environment import BIGQUERY_ENTRANCE_VARIABLE, STORAGE_ENTRANCE_VARIABLE
from devstack.stack.layout import (
    CHECKOUT,
    DAGS_FOLDER_VARIABLE,
    LOCAL_DIR_VARIABLE,
    Layout,
)
from devstack.stack.programs import all_programs
from devstack.stack.supervision import Running, Supervisor
from soak.errors import SoakError
from soak.gate import Gate
from soak.held_request import Service

EXAMPLE = "worked_example"
# The same table by a plan that always takes Spark's Python workers, so that there is one to kill.
BY_SPARK = "worked_example_by_spark"
FEEDS = (EXAMPLE, BY_SPARK)
DAGS_PATIENCE_S = 240.0
LOOK_EVERY_S = 0.25

Say = Callable[[str], None]


def say(line: str) -> None:
    print(line, flush=True)


def wait_for(question: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true answer. Raises SoakError."""
    give_up = time.monotonic() + seconds
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > give_up:
            raise SoakError(f"not within {seconds:.0f} s: {what}")
        time.sleep(LOOK_EVERY_S)


class SoakStack:
    """A running stack and the two gates that all of its parts go through; this process goes directly."""

    def __init__(self, layout: Layout, gates: dict[Service, Gate]) -> None:
        self.layout = layout
        self.gates = gates
        self.connection = Connection.from_variables(client_tools.read(layout.stack_env))
        self.airflow = AirflowApi(self.connection)
        self.supervisor = Supervisor(layout.supervisor_socket)

    @cached_property
    def landing(self) -> Any:
        return self._storage.bucket(self.connection.landing_bucket)

    @cached_property
    def bigquery(self) -> Any:
        return self.connection.bigquery_client()

    @cached_property
    def _storage(self) -> Any:
        return self.connection.storage_client()

    @cached_property
    def store(self) -> ObjectStore:
        return ObjectStore(self._storage, self.connection.state_bucket)

    def current(self, feed: str) -> Current:
        return CurrentFile(self.store, feed).read()

    def staging(self, feed: str) -> Staging | None:
        return StagingFile(self.store, feed).read()

    def ledger(self, feed: str) -> list[LedgerRecord]:
        return Ledger(self.store, feed).read_last(10_000)

    def arrivals(self, feed: str) -> Arrivals:
        return Arrivals(self.store, feed)

    def manifests(self, feed: str) -> Manifests:
        return Manifests(self.store, feed)

    def parts(self) -> dict[str, Running]:
        return self.supervisor.parts()

    def stop_part(self, part: str) -> None:
        """Stops a part as an operator would, and waits for it."""
        self.supervisor.stop(part)

    def ask_airflow(self, question: Callable[[AirflowApi], Any]) -> Any:
        """None while Airflow does not answer: it may be one of those that were killed."""
        try:
            return question(self.airflow)
        except (DemoFailed, Unreachable, OSError, ValueError):
            return None

    def run_state(self, feed: str, run_id: str) -> str | None:
        state: str | None = self.ask_airflow(lambda api: api.run_state(publish_dag(feed), run_id))
        return state

    def tasks(self, feed: str, run_id: str) -> list[Task]:
        return self.ask_airflow(lambda api: api.tasks(publish_dag(feed), run_id)) or []

    def run_ids(self, feed: str) -> list[str]:
        """All publish runs of the feed, in the order of their ids."""
        runs: list[str] = []
        while True:
            page = wait_for(partial(self._page_of_runs, feed, len(runs)), 60, "Airflow lists its runs")
            runs += [run["dag_run_id"] for run in page["dag_runs"]]
            if not page["dag_runs"] or len(runs) >= page["total_entries"]:
                return sorted(runs)

    def _page_of_runs(self, feed: str, offset: int) -> Any:
        path = f"dags/{publish_dag(feed)}/dagRuns?limit=100&offset={offset}"
        return self.ask_airflow(lambda api: api._get(path))

    def job(self, job_id: str) -> Any:
        """The stand-in's record of a job, None when it has none or is not there to ask."""
        url = f"{self.connection.bigquery_url}/bigquery/v2/projects/{self.connection.project}/jobs/{job_id}?location=US"
        try:
            answer = call("GET", url)
        except Unreachable:
            return None
        return answer.json() if answer.ok else None

    def add_fault(self, fault: dict[str, Any]) -> None:
        answer = call("POST", f"{self.connection.bigquery_url}/_standin/faults", body=fault)
        if not answer.ok:
            raise SoakError(f"The stand-in takes no fault [{fault}]: {answer.text[:300]}")

    def clear_faults(self) -> None:
        """A stand-in that was just killed has none."""
        try:
            call("DELETE", f"{self.connection.bigquery_url}/_standin/faults")
        except Unreachable:
            return

    def are_healthy(self) -> bool:
        """Whether every part runs and answers."""
        chosen = ports.read_kept(self.layout.ports_file)
        if chosen is None:
            return False
        try:
            parts = self.parts()
            return all(health.is_healthy(program, parts[program.name]) for program in all_programs(self.layout, chosen))
        except (OSError, KeyError, ValueError):
            return False


def write_dags(folder: Path, *, all_feeds: bool) -> None:
    """The shipped DAGs with two feeds: the worked example, and the same with plan antijoin. With all: more feeds."""
    shipped = CHECKOUT / "dags"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(shipped, folder, ignore=shutil.ignore_patterns("feeds", "__pycache__"))
    shutil.copytree(CHECKOUT / "sql", folder / "sql")
    (folder / "feeds").mkdir()
    for path in sorted((shipped / "feeds").glob("*.yaml")):
        if all_feeds or path.stem == EXAMPLE:
            shutil.copy(path, folder / "feeds")
    text = (shipped / "feeds" / f"{EXAMPLE}.yaml").read_text()
    other = text.replace(EXAMPLE, BY_SPARK) + "dedup:\n  plan: antijoin\n"
    (folder / "feeds" / f"{BY_SPARK}.yaml").write_text(other)


def _change_nothing(dags: Path) -> None:
    """The DAGs as they are shipped."""


@contextmanager
def running(
    local: Path, say: Say = say, *, all_feeds: bool = False, prepare: Callable[[Path], None] = _change_nothing
) -> Iterator[SoakStack]:
    """The stack in `local`, begun anew and always stopped at the end; its logs stay.

    `prepare` may change its copy of the DAGs folder before anything starts.
    """
    shutil.rmtree(local, ignore_errors=True)
    dags = local / "dags"
    write_dags(dags, all_feeds=all_feeds)
    prepare(dags)
    environ = {**os.environ, LOCAL_DIR_VARIABLE: str(local), DAGS_FOLDER_VARIABLE: str(dags)}
    environ["DEDUP_CLONE_SPARK_JOBS"] = str(CHECKOUT / "spark_jobs")
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        os.environ.pop(variable, None)  # nothing of the stack lies behind a proxy
    layout = Layout.from_environment(environ)
    chosen = ports.choose(layout.ports_file).ports
    gates = {
        Service.STORAGE: Gate(Service.STORAGE, chosen.gcs_url),
        Service.BIGQUERY: Gate(Service.BIGQUERY, chosen.bigquery_url),
    }
    environ[STORAGE_ENTRANCE_VARIABLE] = gates[Service.STORAGE].url
    environ[BIGQUERY_ENTRANCE_VARIABLE] = gates[Service.BIGQUERY].url
    for gate in gates.values():
        gate.start()
    try:
        lifecycle.up(layout, environ, say)
        try:
            stack = SoakStack(layout, gates)
            wait_for(lambda: _knows_all_dags(stack), DAGS_PATIENCE_S, f"Airflow knows the DAGs of {FEEDS}")
            yield stack
        finally:
            lifecycle.down(layout, say)
    finally:
        for gate in gates.values():
            gate.stop()


def _knows_all_dags(stack: SoakStack) -> bool:
    wanted = [dag for feed in FEEDS for dag in (watch_dag(feed), publish_dag(feed))]
    paused: list[bool | None] | None = stack.ask_airflow(lambda api: [api.is_paused(dag) for dag in wanted])
    return paused == [False] * len(wanted)
