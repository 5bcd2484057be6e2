"""What only the stand-in can answer: the rights that it grants, and what it refuses; and its sandbox."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from google.api_core.exceptions import Forbidden, ServiceUnavailable
from google.auth.exceptions import RefreshError
from google.cloud import bigquery

from bigquery_standin.client import Control
from testkit.server_clients import FINE_GRAINED_READ, OVERRIDE_TIME_TRAVEL, bigquery_client
from testkit.waiting import wait_for
from tests.conformance.policies import add_policy, add_policy_tag
from tests.conformance.procedures import PROCEDURE_PERMISSIONS, has_ended, procedure, sleeping, started
from tests.conformance.rules import Verdict, verdict_of
from tests.conformance.sandbox import Sandbox, Servers, throwaway

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
AIRFLOW = "airflow@p.iam.gserviceaccount.com"


@pytest.fixture
def table(sandbox: Sandbox) -> str:
    """A new table with two rows of today."""
    return sandbox.new_table(f"t{uuid.uuid4().hex[:8]}", [(sandbox.today, 1, 1), (sandbox.today, 2, 1)])


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
    bigquery_client(f"http://{addresses[0]}", AIRFLOW).query_and_wait(sql.format(t=table))


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
        ({"timePartitioning": {"type": "YEAR", "field": "day"}}, "timePartitioning.type YEAR"),
        ({"view": {"query": "SELECT 1"}}, "view"),
        ({"clusterin": {"fields": ["day"]}}, "clusterin"),
        ({"schema": {"fields": [{"name": "a", "type": "STRING", "collation": "und:ci"}]}}, "collation"),
    ],
)
def test_what_is_not_carried_out_is_refused_by_name(sandbox: Sandbox, change: dict[str, Any], name: str) -> None:
    body = {"tableReference": bigquery.TableReference.from_string(sandbox.table("refused")).to_api_repr(), **change}
    with pytest.raises(exceptions.MethodNotImplemented, match=name):
        sandbox.rest("/tables", "POST", body)


# -- stored procedures for Apache Spark, such as those that publish in tests/e2e


def test_a_program_that_fails_fails_its_job_with_its_last_error(sandbox: Sandbox, procedures: None) -> None:
    client, call = sandbox.client, procedure(sandbox, "raise ValueError('no such thing')")
    job = client.query(call)
    with pytest.raises(exceptions.BadRequest, match="ValueError: no such thing"):
        job.result()
    ended = client.get_job(job.job_id)
    assert ended.error_result["reason"] == "invalidQuery"
    called = max(client.list_jobs(parent_job=job.job_id), key=lambda child: child.job_id)
    assert client.get_job(called.job_id).error_result == ended.error_result


def test_a_cancelled_job_ends_its_program(sandbox: Sandbox, procedures: None, tmp_path: Path) -> None:
    client = sandbox.client
    job = client.query(procedure(sandbox, sleeping(tmp_path / "pid")))
    program = started(tmp_path / "pid")
    assert client.get_job(job.job_id).state == "RUNNING"
    client.cancel_job(job.job_id)
    wait_for(lambda: has_ended(program), "the program ends")
    wait_for(lambda: client.get_job(job.job_id).state == "DONE", "the job ends")
    assert client.get_job(job.job_id).error_result["reason"] == "stopped"


def test_connections_need_permissions_that_a_data_owner_lacks(sandbox: Sandbox, control: Control) -> None:
    """Creating needs connections.delegate, calling connections.use: roles of the connection, not of the dataset."""
    for permission in PROCEDURE_PERMISSIONS:
        with pytest.raises(exceptions.Forbidden, match=permission):
            sandbox.client.query(procedure(sandbox, "pass")).result()
        control.grant(permission)


@pytest.fixture
def procedures(control: Control) -> None:
    for permission in PROCEDURE_PERMISSIONS:
        control.grant(permission)


def left(sandbox: Sandbox) -> list[str]:
    return [
        *(d.dataset_id for d in sandbox.client.list_datasets() if d.dataset_id == sandbox.name),
        *(b.name for b in sandbox.storage.list_buckets() if b.name.startswith(sandbox.bucket.name)),
    ]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), AssertionError()])
def test_nothing_is_left_of_a_run_that_ends_early(servers: Servers, error: BaseException) -> None:
    def run() -> None:
        with throwaway(servers) as sandbox:
            sandbox.new_table("left", [(sandbox.today, 1, 1)])
            made.append(sandbox)
            assert len(left(sandbox)) == 3
            raise error

    made: list[Sandbox] = []
    with pytest.raises(type(error)):
        run()
    assert left(made[0]) == []


def test_a_missing_right_or_service_says_nothing_about_a_rule() -> None:
    for error in (Forbidden("no right"), ServiceUnavailable("busy"), RefreshError("no login"), OSError()):
        assert verdict_of(error) is Verdict.NOT_TRIED
    assert verdict_of(AssertionError()) is Verdict.DID_NOT_HOLD
    assert verdict_of(None) is Verdict.HELD
