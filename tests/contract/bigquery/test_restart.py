"""A stand-in that is killed and started again over the same folder."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from google.api_core import exceptions
from google.cloud import bigquery, storage

from devstack.stack.ports import any_free_port
from testkit.local_servers import launch_stand_in, stop_process
from tests.shared.stand_in_client import (
    PROJECT,
    TODAY,
    Control,
    bigquery_client,
    days_ago,
    load,
    make_table,
    numbers_by_day,
    rows_of,
    snapshot,
    upload,
)
from tests.shared.write_api_client import (
    append_request,
    default_stream,
    message_class,
    write_client,
)
from tests.thoroughness import times


class Restarting:
    """One stand-in that the test kills and starts at the same address."""

    def __init__(self, folder: Path, object_store: str) -> None:
        self._folder = folder
        self._object_store = object_store
        self._port = any_free_port()
        self.address = f"127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        self._process = launch_stand_in(self._folder, self._object_store, self._port)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        stop_process(self._process)


@pytest.fixture
def server(tmp_path: Path, object_store: str) -> Iterator[Restarting]:
    server = Restarting(tmp_path, object_store)
    try:
        yield server
    finally:
        server.stop()


def test_tables_jobs_and_clock_survive_a_kill(server: Restarting, bucket: storage.Bucket) -> None:
    client = bigquery_client(server.address)
    client.create_dataset("d")
    make_table(client, "d.t")
    job = load(client, upload(bucket, f"{uuid.uuid4().hex}.parquet", snapshot([TODAY], 1)), "d.t", "WRITE_TRUNCATE")
    Control(server.address).advance(hours=1)
    etag, now = client.get_table("d.t").etag, Control(server.address).now()
    server.kill()
    server.start()
    assert client.get_table("d.t").etag == etag
    assert Control(server.address).now() >= now
    again = client.get_job(job.job_id)
    assert (again.state, again.error_result, again.output_rows) == ("DONE", None, 2)
    with pytest.raises(exceptions.Conflict, match="Already Exists: Job"):
        client.query("SELECT 1", job_id=job.job_id, job_retry=None)
    assert numbers_by_day(client, "d.t") == {TODAY: {1}}


def test_acknowledged_rows_of_the_default_stream_survive_kills(server: Restarting) -> None:
    client = bigquery_client(server.address)
    client.create_dataset("d")
    client.query_and_wait("CREATE TABLE d.t (id INT64)")
    kind, acknowledged, first = message_class({"id": "int64"}), set[int](), 0
    for _ in range(times(2, 4)):
        with write_client(server.address) as writer:
            requests = [append_request(default_stream("d.t"), kind, [kind(id=first + n)]) for n in range(50)]
            with contextlib.suppress(exceptions.GoogleAPICallError):
                for number, response in enumerate(writer.append_rows(iter(requests)), start=first):
                    assert response.error.code == 0
                    acknowledged.add(number)
                    if number == first + 9:
                        server.kill()
            server.start()
        first += 50
    found = [number for (number,) in rows_of(client, "SELECT id FROM d.t ORDER BY id")]
    assert acknowledged <= set(found)
    assert len(found) == len(set(found)) < first
    assert len(acknowledged) >= 20


@pytest.mark.exhaustive
def test_a_writer_of_row_changes_that_begins_again_after_kills_leaves_the_right_table(server: Restarting) -> None:
    """It sends its changes from the first one on after every kill; apply jobs are killed too."""
    client = bigquery_client(server.address)
    client.create_dataset("d")
    client.query_and_wait(
        "CREATE TABLE d.t (id INT64 PRIMARY KEY NOT ENFORCED, n INT64) OPTIONS (max_staleness = INTERVAL 2 SECOND)"
    )
    kind = message_class({"id": "int64", "n": "int64", "_CHANGE_TYPE": "string", "_CHANGE_SEQUENCE_NUMBER": "string"})
    changes = [
        kind(
            id=number % 20,
            n=number,
            _CHANGE_TYPE="UPSERT" if number % 7 else "DELETE",
            _CHANGE_SEQUENCE_NUMBER=f"{number:X}",
        )
        for number in range(120)
    ]
    for kill_after in (30, 60, 90, None):
        with write_client(server.address) as writer, contextlib.suppress(exceptions.GoogleAPICallError):
            requests = (append_request(default_stream("d.t"), kind, [change]) for change in changes)
            for answered, response in enumerate(writer.append_rows(requests), start=1):
                assert "append_result" in response
                if answered == kill_after:
                    server.kill()
        if kill_after is not None:
            server.start()
    expected = sorted((change.id, change.n) for change in changes[-20:] if change._CHANGE_TYPE == "UPSERT")
    Control(server.address).advance(hours=1)
    client.query_and_wait("CREATE TABLE d.c CLONE d.t")
    assert rows_of(client, "SELECT id, n FROM d.t ORDER BY id") == expected
    assert rows_of(client, "SELECT id, n FROM d.c ORDER BY id") == expected


def test_job_that_a_kill_stopped_is_done_with_an_error(server: Restarting, bucket: storage.Bucket) -> None:
    client = bigquery_client(server.address)
    client.create_dataset("d")
    make_table(client, "d.t")
    Control(server.address).add_fault(match={"job_type": "load"}, effect="queue")
    uri = upload(bucket, f"{uuid.uuid4().hex}.parquet", snapshot([TODAY], 1))
    config = bigquery.LoadJobConfig(source_format="PARQUET")
    job = client.load_table_from_uri(uri, f"{PROJECT}.d.t", job_config=config)
    server.kill()
    server.start()
    ended = client.get_job(job.job_id)
    assert ended.state == "DONE"
    assert ended.error_result is not None
    assert ended.error_result["reason"] == "backendError"
    assert client.get_table("d.t").num_rows == 0


@pytest.mark.exhaustive
def test_swaps_and_kills_leave_tables_and_jobs_that_agree(server: Restarting) -> None:
    """Every script that is DONE without error has swapped, and the target is always exactly one generation."""
    client = bigquery_client(server.address)
    client.create_dataset("d")
    client.query_and_wait("CREATE TABLE d.t0 AS SELECT 0 AS n FROM UNNEST([1, 2, 3])")
    client.query_and_wait("CREATE TABLE d.target CLONE d.t0")
    for number in range(1, 6):
        client.query_and_wait(f"CREATE TABLE d.t{number} AS SELECT {number} AS n FROM UNNEST([1, 2, 3])")
        job_id = f"swap_{number}"
        body = {
            "jobReference": {"projectId": PROJECT, "jobId": job_id},
            "configuration": {"query": {"query": _swap(number), "useLegacySql": False}},
        }
        url = f"http://{server.address}/bigquery/v2/projects/{PROJECT}/jobs"
        requests.post(url, json=body, timeout=30).raise_for_status()
        server.kill()  # at a random moment: the script may be pending, running or done
        server.start()
        job = client.get_job(job_id)
        assert job.state == "DONE"
        expected = number if job.error_result is None else None
        found = rows_of(client, "SELECT n FROM d.target")
        assert len(found) == 3
        assert len(set(found)) == 1
        assert expected is None or found[0] == (number,)


def _swap(number: int) -> str:
    return f"ASSERT (SELECT COUNT(*) FROM d.t{number}) = 3; CREATE OR REPLACE TABLE d.target CLONE d.t{number};"


def test_changes_of_rows_and_kills_leave_the_whole_effect_or_none(server: Restarting) -> None:
    """A DML job that is DONE without error has changed every row, a failed one none."""
    client = bigquery_client(server.address)
    client.create_dataset("d")
    make_table(client, "d.t")
    days = ", ".join(f"(DATE '{days_ago(day)}', 1, 0)" for day in range(20))
    client.query_and_wait(f"INSERT d.t VALUES {days}")
    url = f"http://{server.address}/bigquery/v2/projects/{PROJECT}/jobs"
    value = 0
    for number in range(1, times(3, 7)):
        job_id = f"update_{number}"
        sql = f"UPDATE d.t SET number = {number} WHERE TRUE"
        if number % 2:
            sql = "MERGE d.t AS t USING (SELECT 1 AS id) AS s ON t.id = s.id "
            sql += f"WHEN MATCHED THEN UPDATE SET number = {number}"
        body = {
            "jobReference": {"projectId": PROJECT, "jobId": job_id},
            "configuration": {"query": {"query": sql, "useLegacySql": False}},
        }
        requests.post(url, json=body, timeout=30).raise_for_status()
        time.sleep(0.03 * number)  # so that the kills are at different moments of the job
        server.kill()
        server.start()
        job = client.get_job(job_id)
        assert job.state == "DONE"
        if job.error_result is None:
            value = number
            assert job.num_dml_affected_rows == 20
        else:
            assert job.error_result["reason"] == "backendError"
        assert rows_of(client, "SELECT COUNT(*), MIN(number), MAX(number) FROM d.t") == [(20, value, value)]


def test_repeated_request_attaches_to_its_first_job_also_after_a_restart(server: Restarting) -> None:
    client = bigquery_client(server.address)
    client.create_dataset("warehouse")
    make_table(client, "warehouse.t")
    asked_once, asked_again = uuid.uuid4().hex, uuid.uuid4().hex
    first = _insert_a_row(server, asked_once)
    assert _insert_a_row(server, asked_once) == first
    server.kill()
    server.start()
    assert _insert_a_row(server, asked_once) == first
    assert _insert_a_row(server, asked_again) != first
    assert rows_of(bigquery_client(server.address), "SELECT COUNT(*) FROM warehouse.t") == [(2,)]


def _insert_a_row(server: Restarting, request_id: str) -> str:
    """The id of the job in the response."""
    body = {
        "query": "INSERT INTO warehouse.t (day, id, number) VALUES (DATE '2026-01-31', 1, 1)",
        "useLegacySql": False,
        "requestId": request_id,
    }
    url = f"http://{server.address}/bigquery/v2/projects/{PROJECT}/queries"
    answer = requests.post(url, json=body, timeout=30)
    answer.raise_for_status()
    assert answer.json()["jobComplete"]
    job_id: str = answer.json()["jobReference"]["jobId"]
    return job_id
