"""Starts a local stack whose requests to storage and BigQuery pass through proxies, for soak/ and tests/stack/.

The proxies (`holding_proxy.py`) can hold a request until a process has been killed. The stack has its own files and
ports, and its own copy of the DAGs, so it can run beside a stack that `make up` started.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
from devstack.demo.airflow_api import AirflowApi, DemoError, Task
from devstack.demo.delivery_progress import publish_dag_id, watch_dag_id
from devstack.http_calls import Unreachable, call
from devstack.stack import client_config, health, lifecycle, ports
from devstack.stack.layout import (
    CHECKOUT,
    DAGS_FOLDER_VARIABLE,
    LOCAL_DIR_VARIABLE,
    Layout,
)
from devstack.stack.parts import all_parts
from devstack.stack.process_environment import BIGQUERY_PROXY_VARIABLE, STORAGE_PROXY_VARIABLE
from devstack.stack.supervisord import PartState, Supervisor
from testkit.holding_proxy import HoldingProxy
from testkit.proxied_request import Service
from testkit.stand_in_faults import add_fault, clear_faults
from testkit.waiting import wait_for

EXAMPLE = "worked_example"
# A second feed with the same columns, whose plan always starts Spark's Python workers, so that tests can kill them.
BY_SPARK = "worked_example_by_spark"
FEEDS = (EXAMPLE, BY_SPARK)
DAGS_TIMEOUT_S = 240.0


def log(line: str) -> None:
    print(line, flush=True)


class ProxiedStack:
    """A running stack. Its processes reach storage and BigQuery through `proxies`; this process does so directly.

    A part of the stack is a program that supervisord runs, such as Airflow's scheduler (devstack/stack/parts.py).
    """

    def __init__(self, layout: Layout, proxies: dict[Service, HoldingProxy]) -> None:
        self.layout = layout
        self.proxies = proxies
        self.connection = Connection.from_variables(client_config.read(layout.stack_env))
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

    def part_states(self) -> dict[str, PartState]:
        """The state of each part of the stack, by the part's name."""
        return self.supervisor.part_states()

    def stop_part(self, part: str) -> None:
        """Stop a part as an operator would, and wait until it has stopped."""
        self.supervisor.stop(part)

    def ask_airflow(self, request: Callable[[AirflowApi], Any]) -> Any:
        """The result of `request`; None if Airflow does not answer, for example because its API server was killed."""
        try:
            return request(self.airflow)
        except (DemoError, Unreachable, OSError, ValueError):
            return None

    def run_state(self, feed: str, run_id: str) -> str | None:
        """The state of a publish run of the feed; None if Airflow does not know the run or does not answer."""
        state: str | None = self.ask_airflow(lambda api: api.run_state(publish_dag_id(feed), run_id))
        return state

    def tasks(self, feed: str, run_id: str) -> list[Task]:
        """The task instances of a publish run of the feed; none if Airflow does not answer."""
        return self.ask_airflow(lambda api: api.tasks(publish_dag_id(feed), run_id)) or []

    def run_ids(self, feed: str) -> list[str]:
        """The sorted ids of all publish runs of the feed."""
        runs: list[str] = []
        while True:
            page = wait_for(partial(self._page_of_runs, feed, len(runs)), "Airflow lists its runs", 60)
            runs += [run["dag_run_id"] for run in page["dag_runs"]]
            if not page["dag_runs"] or len(runs) >= page["total_entries"]:
                return sorted(runs)

    def _page_of_runs(self, feed: str, offset: int) -> Any:
        path = f"dags/{publish_dag_id(feed)}/dagRuns?limit=100&offset={offset}"
        return self.ask_airflow(lambda api: api.get(path))

    def job(self, job_id: str) -> Any:
        """The REST resource of a BigQuery job; None if there is no such job or the stand-in does not run."""
        url = f"{self.connection.bigquery_url}/bigquery/v2/projects/{self.connection.project}/jobs/{job_id}?location=US"
        try:
            answer = call("GET", url)
        except Unreachable:
            return None
        return answer.json() if answer.ok else None

    def add_fault(self, fault: dict[str, Any]) -> None:
        add_fault(self.connection.bigquery_url, fault)

    def clear_faults(self) -> None:
        with suppress(Unreachable):  # a stand-in that was killed has no faults
            clear_faults(self.connection.bigquery_url)

    def are_healthy(self) -> bool:
        """Whether every part of the stack runs and is healthy."""
        stack_ports = ports.read_saved(self.layout.ports_file)
        if stack_ports is None:
            return False
        try:
            states = self.part_states()
            return all(health.is_healthy(part, states) for part in all_parts(self.layout, stack_ports))
        except (OSError, ValueError):
            return False


def write_dags(folder: Path, *, all_feeds: bool) -> None:
    """Copy the DAGs into `folder`, with the feeds EXAMPLE and BY_SPARK; with `all_feeds` also all other feeds."""
    source = CHECKOUT / "dags"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(CHECKOUT / "sql", folder / "sql")
    for path in (folder / "feeds").glob("*.yaml"):
        if not all_feeds and path.stem != EXAMPLE:
            path.unlink()
    example_yaml = (source / "feeds" / f"{EXAMPLE}.yaml").read_text()
    by_spark_yaml = example_yaml.replace(EXAMPLE, BY_SPARK) + "dedup:\n  plan: antijoin\n"
    (folder / "feeds" / f"{BY_SPARK}.yaml").write_text(by_spark_yaml)


def _change_nothing(dags: Path) -> None:
    """The default of `prepare_dags`, which leaves the DAGs as they are."""


@contextmanager
def running_stack(
    folder: Path, *, all_feeds: bool = False, prepare_dags: Callable[[Path], None] = _change_nothing
) -> Iterator[ProxiedStack]:
    """Start a new stack, yield it once Airflow knows the DAGs of EXAMPLE and BY_SPARK, and stop it at the end.

    `folder`: the folder of all its files. What it contains is deleted before the start; after the end it stays.
    `prepare_dags`: is called with the folder of the copied DAGs before anything starts, and may change it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    dags = folder / "dags"
    write_dags(dags, all_feeds=all_feeds)
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
        lifecycle.up(layout, environ, log)
        try:
            stack = ProxiedStack(layout, proxies)
            wait_for(lambda: _knows_dags(stack), f"Airflow knows the DAGs of {FEEDS}", DAGS_TIMEOUT_S)
            yield stack
        finally:
            lifecycle.down(layout, log)
    finally:
        for proxy in proxies.values():
            proxy.stop()


def _knows_dags(stack: ProxiedStack) -> bool:
    """Whether Airflow knows the watch and publish DAGs of FEEDS, and none of them is paused."""
    dag_ids = [dag_id for feed in FEEDS for dag_id in (watch_dag_id(feed), publish_dag_id(feed))]
    paused: list[bool | None] | None = stack.ask_airflow(lambda api: [api.is_paused(dag_id) for dag_id in dag_ids])
    return paused == [False] * len(dag_ids)
