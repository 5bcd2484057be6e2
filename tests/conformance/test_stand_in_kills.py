"""A stand-in that is killed and started again over its folder: each job has its whole effect or none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from devstack.stack.ports import any_free_port
from testkit.local_servers import launch_stand_in, stop_process
from testkit.waiting import wait_for
from tests.conformance.procedures import PROCEDURE_PERMISSIONS, has_ended, procedure, sleeping, started
from tests.conformance.sandbox import Sandbox, local_servers, throwaway
from tests.thoroughness import times


class Restarting:
    """One stand-in that the test kills and starts at the same address, and a sandbox on it."""

    def __init__(self, folder: Path, object_store: str) -> None:
        self._start = lambda: launch_stand_in(folder, object_store, port)
        port = any_free_port()
        self.addresses = (f"127.0.0.1:{port}", object_store)
        self.process = self._start()
        self.sandbox: Sandbox

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def start(self) -> None:
        self.process = self._start()

    def submit(self, sql: str) -> str:
        """Send a job, kill the stand-in while it is pending, running or done, and start it again. Returns the id."""
        job_id = f"job_{uuid.uuid4().hex}"
        configuration = {"query": {"query": sql, "useLegacySql": False}}
        reference = {"projectId": self.sandbox.servers.project, "jobId": job_id}
        self.sandbox.project_rest("jobs", "POST", {"jobReference": reference, "configuration": configuration})
        self.kill()
        self.start()
        return job_id

    def has_succeeded(self, job_id: str) -> bool:
        """Whether the job succeeded; if not, the kill must be the reason."""
        job: Any = self.sandbox.client.get_job(job_id)
        assert job.state == "DONE"
        assert job.error_result is None or job.error_result["reason"] == "backendError"
        return job.error_result is None


@pytest.fixture
def server(tmp_path: Path, addresses: tuple[str, str]) -> Iterator[Restarting]:
    server = Restarting(tmp_path, addresses[1])
    try:
        with throwaway(local_servers(server.addresses)) as server.sandbox:
            yield server
    finally:
        stop_process(server.process)


def test_tables_jobs_and_clock_survive_a_kill(server: Restarting) -> None:
    sandbox = server.sandbox
    table = sandbox.new_table("t", [(sandbox.today, 1, 1)])
    uri = sandbox.upload([(sandbox.today, 1, 2)])
    job = sandbox.load_uris(table, [uri], "WRITE_APPEND")
    sandbox.servers.sleep(3600)
    etag, now = sandbox.client.get_table(table).etag, sandbox.now()
    sandbox.servers.control.add_fault(match={"job_type": "load"}, effect="queue")
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    queued = sandbox.client.load_table_from_uri(uri, table, job_config=config)
    server.kill()
    server.start()
    assert sandbox.client.get_table(table).etag == etag
    assert sandbox.now() >= now
    again = sandbox.client.get_job(job.job_id)
    assert (again.state, again.error_result, again.output_rows) == ("DONE", None, 1)
    with pytest.raises(exceptions.Conflict):
        sandbox.client.query("SELECT 1", job_id=job.job_id, job_retry=None)
    assert not server.has_succeeded(queued.job_id)
    assert sandbox.numbers(table) == [1, 2]


def test_swaps_and_changes_have_their_whole_effect_or_none(server: Restarting) -> None:
    sandbox = server.sandbox
    staging = sandbox.new_table("staging", [(sandbox.days_ago(day), 1, 0) for day in range(20)])
    target, live, value = sandbox.table("target"), 0, 0
    sandbox.query(f"CREATE TABLE `{target}` CLONE `{staging}`")
    for number in range(1, times(2, 6)):
        changed = server.has_succeeded(server.submit(f"UPDATE `{staging}` SET number = {number} WHERE TRUE"))
        value = number if changed else value
        assert sandbox.numbers(staging) == [value] * 20
        swap = f"ASSERT (SELECT COUNT(*) FROM `{staging}`) = 20; CREATE OR REPLACE TABLE `{target}` CLONE `{staging}`"
        swapped = server.has_succeeded(server.submit(swap))
        found = sandbox.numbers(target)
        assert found in ([live] * 20, [value] * 20)
        assert not swapped or found[0] == value
        live = found[0]


def test_a_repeated_request_attaches_to_its_first_job_also_after_a_restart(server: Restarting) -> None:
    sandbox = server.sandbox
    table = sandbox.new_table("t")
    insert = f"INSERT INTO `{table}` (day, id, number) VALUES (DATE '2026-01-31', 1, 1)"
    body = {"query": insert, "useLegacySql": False, "requestId": uuid.uuid4().hex}

    def job_of(body: dict[str, Any]) -> str:
        return str(sandbox.project_rest("queries", "POST", body)["jobReference"]["jobId"])

    first = job_of(body)
    assert job_of(body) == first
    server.kill()
    server.start()
    assert job_of(body) == first
    assert job_of({**body, "requestId": uuid.uuid4().hex}) != first
    assert sandbox.numbers(table) == [1, 1]


def test_a_killed_stand_in_leaves_no_spark_behind(server: Restarting, tmp_path: Path) -> None:
    sandbox = server.sandbox
    assert sandbox.servers.control
    for permission in PROCEDURE_PERMISSIONS:
        sandbox.servers.control.grant(permission)
    job = sandbox.client.query(procedure(sandbox, sleeping(tmp_path / "pid")))
    started(tmp_path / "pid")
    below = psutil.Process(server.process.pid).children(recursive=True)
    assert len(below) >= 3  # the guard, the JVM and the program
    server.kill()
    wait_for(lambda: all(has_ended(process.pid) for process in below), "all of Spark ends")
    server.start()
    assert not server.has_succeeded(job.job_id)
