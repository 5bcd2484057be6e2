"""What only the stand-in can answer: its clock, its faults, the rights that it grants, what it does not carry out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from bigquery_standin.client import Control
from testkit.controlled_stand_in import ControlledStandIn
from testkit.local_servers import start_stand_in
from testkit.server_clients import control_of
from tests.conformance.policies import add_policy, add_policy_tag
from tests.conformance.sandbox import Sandbox, local_servers, throwaway
from tests.conformance.streams import PLAIN, send
from tests.shared.stand_in_client import (
    FINE_GRAINED_READ,
    OVERRIDE_TIME_TRAVEL,
    bigquery_client,
)

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
AIRFLOW = "airflow@p.iam.gserviceaccount.com"


@pytest.fixture
def table(sandbox: Sandbox) -> str:
    """A new table with two rows of today."""
    return sandbox.new_table(f"t{uuid.uuid4().hex[:8]}", [(sandbox.today, 1, 1), (sandbox.today, 2, 1)])


# -- the clock


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory, addresses: tuple[str, str]) -> Iterator[Sandbox]:
    """A sandbox on a stand-in of its own, whose clock tests may move."""
    folder, gcs = tmp_path_factory.mktemp("moved"), addresses[1]
    with start_stand_in(folder, gcs) as stand_in, throwaway(local_servers((stand_in, gcs))) as sandbox:
        yield sandbox


def test_expired_partitions_vanish_when_the_clock_moves(moved: Sandbox) -> None:
    table = moved.new_table("short", [(moved.today, 1, 1), (moved.days_ago(4), 1, 2)], expiration_days=5)
    assert moved.client.get_table(table).num_rows == 2
    moved.servers.sleep(timedelta(days=2).total_seconds())
    assert moved.numbers(table) == [1]
    assert moved.client.get_table(table).num_rows == 1


def test_time_travel_ends_after_seven_days(moved: Sandbox) -> None:
    table, before = moved.new_table("old", [(moved.today, 1, 1)]), moved.now()
    moved.load(table, [(moved.today, 1, 2)])
    past = f"SELECT number FROM `{table}` FOR SYSTEM_TIME AS OF @at"
    assert moved.rows(past, {"at": before}) == [(1,)]
    moved.servers.sleep(timedelta(days=8).total_seconds())
    with pytest.raises(exceptions.BadRequest):
        moved.rows(past, {"at": before})


def test_streamed_rows_are_queried_at_once_and_cloned_after_some_minutes(
    moved: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BIGQUERY_STORAGE_EMULATOR_HOST", control_of(moved.client).write_api())
    table = moved.make("streamed", "id INT64, name STRING")
    send(table, [PLAIN(id=1, name="a")])
    assert moved.rows(f"SELECT id FROM `{table}`") == [(1,)]
    assert moved.client.get_table(table).streaming_buffer.estimated_rows == 1
    for clone, expected in (("early", []), ("late", [(1,)])):
        moved.query(f"CREATE TABLE `{moved.table(clone)}` CLONE `{table}`")
        assert moved.rows(f"SELECT id FROM `{moved.table(clone)}`") == expected
        moved.servers.sleep(timedelta(minutes=5).total_seconds())
    assert moved.client.get_table(table).streaming_buffer is None


def test_a_deleted_dataset_is_restored_as_it_was(moved: Sandbox) -> None:
    """Page "Restore deleted datasets". BigQuery deletes no restored dataset for seven days, so this is no probe."""
    client = moved.client
    client.create_dataset("restored")
    client.query_and_wait("CREATE TABLE restored.t AS SELECT 7 AS id")
    client.delete_dataset("restored", delete_contents=True)
    with pytest.raises(exceptions.NotFound):
        client.query_and_wait("UNDROP SCHEMA restored OPTIONS (location = 'EU')")
    client.query_and_wait("UNDROP SCHEMA restored")
    assert [row["id"] for row in client.query_and_wait("SELECT id FROM restored.t")] == [7]
    with pytest.raises(exceptions.BadRequest):
        client.delete_dataset("restored", delete_contents=True)


# -- faults


def test_faults_fail_and_queue_jobs_and_fail_requests(sandbox: Sandbox, control: Control, table: str) -> None:
    client, name = sandbox.client, uuid.uuid4().hex
    control.add_fault(match={"job_type": "query", "job_id": "^fault-"}, effect="quota", message="Too much")
    with pytest.raises(exceptions.Forbidden, match="Too much"):
        client.query("SELECT 1", job_id=f"fault-{name}", job_retry=None).result(retry=None)
    control.add_fault(match={"job_type": "query", "job_id": "^wait-"}, effect="queue")
    waiting = client.query("SELECT 1", job_id=f"wait-{name}", job_retry=None)
    assert client.get_job(waiting.job_id).state == "PENDING"
    client.cancel_job(waiting.job_id)
    with pytest.raises(exceptions.GoogleAPICallError, match="cancelled"):
        waiting.result()
    control.add_fault(match={"method": "GET", "path": "/datasets/"}, effect="error", status=404, reason="notFound")
    with pytest.raises(exceptions.NotFound, match="Fault on purpose"):
        client.get_table(table)


def test_a_failed_statement_changes_no_row(sandbox: Sandbox, control: Control, table: str) -> None:
    control.add_fault(match={"job_type": "query", "job_id": "^broken-"}, effect="error", reason="backendError")
    job = sandbox.client.query(f"DELETE FROM `{table}` WHERE TRUE", job_id=f"broken-{uuid.uuid4().hex}", job_retry=None)
    with pytest.raises(exceptions.GoogleAPICallError, match="Fault on purpose"):
        job.result(retry=None)
    assert sandbox.numbers(table) == [1, 1]


def test_a_lost_reply_does_not_run_a_job_twice(sandbox: Sandbox, control: Control, table: str) -> None:
    """The client sends the job again with the same id, and gets the first job."""
    control.add_fault(match={"method": "POST", "path": "/jobs$"}, effect="lost_reply")
    sandbox.query(f"INSERT INTO `{table}` (day, id, number) VALUES (DATE '2026-01-31', 99, 9)")
    assert sandbox.numbers(table) == [1, 1, 9]


def test_a_pending_job_is_waited_for_and_stops_at_its_timeout(sandbox: Sandbox, control: Control) -> None:
    client, name = sandbox.client, uuid.uuid4().hex
    control.add_fault(match={"job_id": f"pending-{name}"}, effect="queue", seconds=1)
    client.query("SELECT 1", job_id=f"pending-{name}", job_retry=None)
    ControlledStandIn(client).wait_for_all_jobs()
    assert client.get_job(f"pending-{name}").state == "DONE"
    control.add_fault(match={"job_id": f"timeout-{name}"}, effect="queue")
    config = bigquery.QueryJobConfig(job_timeout_ms=200)
    job = client.query("SELECT 1", job_id=f"timeout-{name}", job_config=config, job_retry=None)
    with pytest.raises(exceptions.GoogleAPICallError, match="timed out"):
        job.result(retry=None)


# -- rights


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {t}",
        "SELECT TO_JSON_STRING(a) AS j FROM {t} AS a",
        "WITH a AS (SELECT number AS n FROM {t}) SELECT n FROM a",
        "UPDATE {t} SET id = number WHERE TRUE",
        "MERGE {t} AS a USING (SELECT 1 AS k) AS s ON a.number = s.k WHEN MATCHED THEN DELETE",
        "DECLARE n INT64 DEFAULT (SELECT MAX(number) FROM {t})",
        "CREATE TABLE {t}_clone CLONE {t}",
    ],
)
def test_a_column_with_a_policy_tag_needs_fine_grained_read(
    sandbox: Sandbox, control: Control, table: str, sql: str
) -> None:
    """Pages "Restrict access with column-level access control" and "Impact on writes with …"."""
    add_policy_tag(sandbox, table.split(".")[-1], "number", TAG)
    assert sandbox.rows(f"SELECT id FROM {table} ORDER BY id") == [(1,), (2,)]
    with pytest.raises(exceptions.Forbidden, match=TAG):
        sandbox.query(sql.format(t=table))
    control.grant(FINE_GRAINED_READ)
    sandbox.query(sql.format(t=table))


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO {t} (id) VALUES (3)",
        "TRUNCATE TABLE {t}",
        "DELETE FROM {t} WHERE day < '2020-01-01'",
        "MERGE {t} USING (SELECT 1 AS k) AS s ON id = s.k WHEN MATCHED THEN DELETE",
        "CREATE TABLE {t}_clone CLONE {t}",
    ],
)
def test_the_true_filter_must_be_the_callers_own(
    sandbox: Sandbox, addresses: tuple[str, str], table: str, sql: str
) -> None:
    """ "Using row-level security with other BigQuery features": the TRUE filter; the owner of a table has none."""
    add_policy(sandbox, table, "all_rows", "TRUE", f"serviceAccount:{AIRFLOW}")
    with pytest.raises(exceptions.Forbidden, match="TRUE"):
        sandbox.query(sql.format(t=table))
    bigquery_client(addresses[0], AIRFLOW).query_and_wait(sql.format(t=table))


def test_the_past_of_a_table_that_had_row_policies_needs_a_permission(
    sandbox: Sandbox, control: Control, table: str
) -> None:
    """ "Data retention with time travel and fail-safe", time travel and row-level access."""
    at = {"at": sandbox.now()}
    past = f"SELECT id FROM `{table}` FOR SYSTEM_TIME AS OF @at"
    sandbox.rows(past, at)
    add_policy(sandbox, table, "all_rows", "TRUE")
    sandbox.query(f"DROP ALL ROW ACCESS POLICIES ON `{table}`")
    with pytest.raises(exceptions.Forbidden, match=OVERRIDE_TIME_TRAVEL):
        sandbox.rows(past, at)
    control.grant(OVERRIDE_TIME_TRAVEL)
    assert len(sandbox.rows(past, at)) == 2


def test_rows_of_a_table_with_a_row_policy_are_not_read(sandbox: Sandbox, table: str) -> None:
    """The stand-in cannot filter rows, so it refuses what BigQuery would answer in part."""
    add_policy(sandbox, table, "mine", "id = 1")
    for sql in (f"SELECT COUNT(*) FROM {table}", f"CREATE TABLE {table}_copy AS SELECT id FROM {table}"):
        with pytest.raises(exceptions.MethodNotImplemented, match="mine"):
            sandbox.query(sql)
    with pytest.raises(exceptions.Forbidden, match="mine"):
        list(sandbox.client.list_rows(table))


# -- what is not carried out


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"timePartitioning": {"type": "HOUR", "field": "day"}}, "timePartitioning.type HOUR"),
        ({"view": {"query": "SELECT 1"}}, "view"),
        ({"schema": {"fields": [{"name": "a", "type": "STRING", "collation": "und:ci"}]}}, "collation"),
    ],
)
def test_what_is_not_carried_out_is_refused_by_name(sandbox: Sandbox, change: dict[str, Any], name: str) -> None:
    body = {"tableReference": bigquery.TableReference.from_string(sandbox.table("refused")).to_api_repr(), **change}
    with pytest.raises(exceptions.MethodNotImplemented, match=name):
        sandbox.rest("/tables", "POST", body)
    with pytest.raises(exceptions.BadRequest, match='Unknown name "clusterin"'):
        sandbox.rest("/tables", "POST", {**body, "clusterin": {}})


def test_load_options_that_are_not_carried_out_are_refused_by_name(sandbox: Sandbox, table: str) -> None:
    uri = sandbox.upload([(sandbox.today, 1, 3)])
    for option, value in (("autodetect", True), ("maxBadRecords", 3), ("hivePartitioningOptions", {"mode": "AUTO"})):
        with pytest.raises(exceptions.MethodNotImplemented, match=option.removesuffix("Options")):
            sandbox.load_uris(table, [uri], **{option: value})
