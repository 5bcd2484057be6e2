"""Uses a running stack as people do: lands snapshots, triggers runs and waits for them, reads tables and the page."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from datetime import date
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from devstack.connection import Connection
from devstack.demo.airflow_api import AirflowApi
from devstack.http_calls import Answer, call
from devstack.stack import client_config
from devstack.stack.names_and_logins import LOGINS
from testkit.waiting import TIMEOUT_S, wait_for

Row = dict[str, Any]
COLUMNS = ("date", "product_id", "store_id", "attribute_id", "attr_value", "update_id")
SCHEMA = pa.schema([("date", pa.date32()), *[(name, pa.int64()) for name in COLUMNS[1:]]])


class StackClient:
    """The client of the stack whose files are below the folder `local`."""

    def __init__(self, local: Path) -> None:
        self.local = local
        self.variables = client_config.read(local / "stack.env")
        self.connection = Connection.from_variables(self.variables)
        self.airflow = AirflowApi(self.connection)

    @cached_property
    def landing(self) -> Any:
        return self.connection.storage_client().bucket(self.connection.landing_bucket)

    @cached_property
    def bigquery(self) -> Any:
        return self.connection.bigquery_client()

    def run_tool(self, *command: str) -> str:
        """Run one of Google's command line tools with the variables of stack.env, by which it finds the stack.

        Returns what it wrote to stdout. Raises AssertionError if it fails.
        """
        environment = {**os.environ, **self.variables}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def write_snapshot(self, folder: Path, rows: Sequence[Row], *, schema: pa.Schema = SCHEMA) -> Path:
        """Write a snapshot below `folder`, and return `folder`. Each date has two files, in row groups of at most 100.

        The layout differs from that of devstack.producer, because files of other producers differ too.
        """
        for day in sorted({r["date"] for r in rows}):
            rows_of_day = [r for r in rows if r["date"] == day]
            date_folder = folder / f"date={day}"
            date_folder.mkdir(parents=True)
            for number in range(2):
                half = pa.Table.from_pylist(rows_of_day[number::2], schema=schema)
                pq.write_table(half, date_folder / f"{number}.parquet", compression="snappy", row_group_size=100)
        return folder

    def land(
        self, feed: str, snapshot_id: int, rows: Sequence[Row], folder: Path, *, schema: pa.Schema = SCHEMA
    ) -> str:
        """Land one delivery through the client library. Returns the id of the publish run that it must get.

        `folder`: where the snapshot's files are written before they are uploaded.
        """
        source = self.write_snapshot(folder, rows, schema=schema)
        prefix = f"{feed}/snapshot_id={snapshot_id}"
        for file in sorted(source.rglob("*.parquet")):
            self.landing.blob(f"{prefix}/{file.relative_to(source)}").upload_from_filename(file)
        return self.mark(feed, snapshot_id)

    def mark(self, feed: str, snapshot_id: int) -> str:
        """Upload the marker of a snapshot. Returns the id of the publish run that the delivery must get."""
        blob = self.landing.blob(f"{feed}/snapshot_id={snapshot_id}/_SUCCESS")
        blob.upload_from_string("")
        return f"publish__{snapshot_id}__{blob.generation}"

    def run_ids(self, feed: str) -> list[str]:
        """The sorted ids of the feed's publish runs, at most 100."""
        answer = self.airflow.get(f"dags/{feed}_publish/dagRuns?limit=100")
        return sorted(run["dag_run_id"] for run in answer["dag_runs"])

    def replay(self, feed: str, **parameters: Any) -> str:
        """Trigger the publish DAG as its form in Airflow does. Return the run id."""
        return self.started_run_id(self.trigger(f"{feed}_publish", **parameters))

    def trigger(self, dag_id: str, *, user: str = "admin", **parameters: Any) -> Answer:
        """Trigger a run of the DAG with these parameters, as `user`. Returns Airflow's answer."""
        body = {"logical_date": None, "conf": parameters}
        return self.ask("POST", f"api/v2/dags/{dag_id}/dagRuns", body=body, user=user)

    def started_run_id(self, answer: Answer) -> str:
        """The id of the run in Airflow's answer to `trigger`."""
        assert answer.ok, answer.text
        return str(answer.json()["dag_run_id"])

    def ask(self, method: str, path: str, *, body: Any = None, user: str | None = "admin") -> Answer:
        """Send one request to Airflow, with the login of `user`; None for a request without login."""
        token = self._token(user) if user else None
        return call(method, f"{self.connection.airflow_url}/{path}", body=body, token=token, timeout_s=60)

    @cache  # noqa: B019 - one stack a session
    def _token(self, user: str) -> str:
        login = {"username": user, "password": LOGINS[user]}
        return str(call("POST", f"{self.connection.airflow_url}/auth/token", body=login).json()["access_token"])

    def wait_for_run(self, feed: str, run_id: str, *, dag: str = "publish", timeout_s: float = TIMEOUT_S) -> str:
        """Wait until a run has ended, and return its final state."""
        state: str = wait_for(
            lambda: self.final_state(f"{feed}_{dag}", run_id), f"run [{run_id}] of [{feed}_{dag}] has ended", timeout_s
        )
        return state

    def final_state(self, dag_id: str, run_id: str) -> str | None:
        """The final state of a run; None while it runs."""
        state = self.airflow.run_state(dag_id, run_id)
        return state if state in ("success", "failed") else None

    def task_states(self, feed: str, run_id: str, *, dag: str = "publish") -> dict[str, str | None]:
        return {task.task_id: task.state for task in self.airflow.tasks(f"{feed}_{dag}", run_id)}

    def task_log(self, feed: str, run_id: str, task_id: str, *, dag: str = "publish") -> str:
        """The log of the task's last try."""
        task = next(t for t in self.airflow.tasks(f"{feed}_{dag}", run_id) if t.task_id == task_id)
        return "\n".join(self.airflow.log_lines(f"{feed}_{dag}", run_id, task))

    def on_the_page(self, feed: str, *, user: str = "admin") -> dict[str, Any]:
        """What the page Snapshots shows of a feed."""
        answer = self.ask("GET", f"dedup-clone/api/feeds/{feed}", user=user)
        assert answer.ok, answer.text
        view: dict[str, Any] = answer.json()
        return view

    def wait_for_page(self, feed: str, shows: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """Wait until `shows` is true of the page, which may be late because it caches. Return what the page shows.

        `what`: what is waited for, for the error's message.
        """
        shown: dict[str, Any] = wait_for(
            lambda: view if shows(view := self.on_the_page(feed)) else None, f"the page of [{feed}] shows {what}"
        )
        return shown

    def rows(self, feed: str) -> list[tuple[Any, ...]]:
        """The sorted rows of target, as tuples in the order of COLUMNS."""
        sql = f"SELECT {', '.join(COLUMNS)} FROM warehouse.{feed}"
        return sorted(tuple(row.values()) for row in self.bigquery.query_and_wait(sql))


def row(day: date, product: int, value: int, snapshot_id: int) -> Row:
    """A row of the worked example's table."""
    return dict(zip(COLUMNS, (day, product, 2072, 1, value, snapshot_id), strict=True))


def as_tuples(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """These rows in the form of StackClient.rows."""
    return sorted(tuple(r[name] for name in COLUMNS) for r in rows)
