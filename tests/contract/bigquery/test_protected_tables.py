"""What a table with row access policies or policy tags refuses to whom: reads, changes, clones, and its past.

Rules of "Use row-level security", "Using row-level security with other BigQuery features", "Restrict access with
column-level access control", F5 and F18.
"""

from __future__ import annotations

import re

import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from tests.contract.bigquery.policy_calls import TAG, call, insert, make_unprotected, tag
from tests.shared.stand_in_client import (
    FINE_GRAINED_READ,
    OVERRIDE_TIME_TRAVEL,
    PROJECT,
    STAND_IN_USER,
    TODAY,
    Control,
    bigquery_client,
    make_table,
    rows_of,
)


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    return make_unprotected(client, dataset)


# -- reads


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM {t}",
        "SELECT COUNT(*) FROM {t}",
        "WITH a AS (SELECT id FROM {t}) SELECT * FROM a",
        "SELECT (SELECT MAX(id) FROM {t}) AS m",
        "CREATE OR REPLACE TABLE {t}_copy AS SELECT id FROM {t}",
        "ASSERT (SELECT COUNT(*) FROM {t}) = 2",
        "DECLARE n INT64 DEFAULT (SELECT COUNT(*) FROM {t})",
        "IF EXISTS (SELECT 1 FROM {t}) THEN SELECT 1; END IF",
    ],
)
def test_read_of_a_table_with_a_row_policy_is_refused(client: bigquery.Client, table: str, sql: str) -> None:
    insert(client, table, "mine")
    with pytest.raises(exceptions.MethodNotImplemented, match=re.escape(f"{PROJECT}:{table}") + ".*mine"):
        client.query(sql.format(t=table)).result()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM {t}",
        "SELECT a.number FROM {t} AS a",
        "SELECT id FROM {t} WHERE number = 1",
        "SELECT id FROM {t} ORDER BY number",
        "SELECT TO_JSON_STRING(a) AS j FROM {t} AS a",
        "SELECT (SELECT TO_JSON_STRING(A)) AS j FROM {t} AS a",
        "SELECT x.id FROM (SELECT * FROM {t}) AS x",
        "WITH a AS (SELECT number AS n FROM {t}) SELECT n FROM a",
        "SELECT 1 AS one FROM UNNEST([1]) AS k WHERE EXISTS (SELECT 1 FROM {t} AS a WHERE a.number = k)",
        "SELECT a.id FROM {t} AS a JOIN {t} AS b USING (number)",
        "SELECT (SELECT a.number) AS n FROM {t} AS a",
        "UPDATE {t} SET id = number WHERE TRUE",
        "DELETE FROM {t} WHERE number = 1",
        "MERGE {t} AS a USING (SELECT 1 AS k) AS s ON a.number = s.k WHEN MATCHED THEN DELETE",
        "MERGE {t}_other AS a USING {t} AS s ON FALSE WHEN NOT MATCHED THEN INSERT ROW",
        "DECLARE n INT64 DEFAULT (SELECT MAX(number) FROM {t})",
        "IF EXISTS (SELECT 1 FROM {t} WHERE number = 1) THEN SELECT 1; END IF",
    ],
)
def test_read_of_a_column_with_a_policy_tag_needs_fine_grained_read(
    client: bigquery.Client, control: Control, table: str, sql: str
) -> None:
    make_table(client, f"{table}_other")
    tag(client, table)
    with pytest.raises(exceptions.Forbidden, match=f"column number of table {PROJECT}:{table} .*{TAG}"):
        client.query(sql.format(t=table)).result()
    control.grant(FINE_GRAINED_READ)
    client.query(sql.format(t=table)).result()


def test_other_columns_of_a_tagged_table_are_read(client: bigquery.Client, table: str) -> None:
    tag(client, table)
    assert rows_of(client, f"SELECT * EXCEPT (number) FROM {table} ORDER BY id") == [(TODAY, 1), (TODAY, 2)]
    assert rows_of(client, f"SELECT COUNT(*) FROM {table}") == [(2,)]
    client.query_and_wait(f"UPDATE {table} SET number = 5 WHERE id = 1")
    client.query_and_wait(f"DELETE FROM {table} WHERE id = 2")
    columns = client.get_table(f"{PROJECT}.{table}").schema[:2]
    listed = client.list_rows(f"{PROJECT}.{table}", selected_fields=columns)
    assert [tuple(row.values()) for row in listed] == [(TODAY, 1)]
    with pytest.raises(exceptions.Forbidden, match=TAG):
        list(client.list_rows(f"{PROJECT}.{table}"))


def test_rows_and_extracts_of_a_protected_table_are_refused(
    client: bigquery.Client, bucket: storage.Bucket, dataset: str, table: str
) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.tagged CLONE {table}")
    tag(client, f"{dataset}.tagged")
    insert(client, table, "mine")
    with pytest.raises(exceptions.Forbidden, match=r"tabledata\.list .*TRUE .*mine"):
        list(client.list_rows(f"{PROJECT}.{table}"))
    config = bigquery.ExtractJobConfig(destination_format="PARQUET")
    for name, refusal, policy in (
        (table, exceptions.MethodNotImplemented, "mine"),
        (f"{dataset}.tagged", exceptions.Forbidden, TAG),
    ):
        with pytest.raises(refusal, match=policy):
            client.extract_table(f"{PROJECT}.{name}", f"gs://{bucket.name}/no.parquet", job_config=config).result()


def test_a_table_as_it_was_before_its_policy_is_refused_too(
    client: bigquery.Client, control: Control, table: str
) -> None:
    before = control.now()
    tag(client, table)
    moment = bigquery.QueryJobConfig(query_parameters=[bigquery.ScalarQueryParameter("t", "TIMESTAMP", before)])
    with pytest.raises(exceptions.Forbidden, match=TAG):
        client.query(f"SELECT number FROM {table} FOR SYSTEM_TIME AS OF @t", moment).result()


# -- operations that need all rows, or the past


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO {t} SELECT * FROM {t}",
        "INSERT INTO {t} (id) VALUES (3)",
        "TRUNCATE TABLE {t}",
        "UPDATE {t} SET id = 2 WHERE id = 1",
        "DELETE FROM {t} WHERE day < '2020-01-01'",
        "MERGE {t} USING (SELECT 1 AS k) AS s ON id = s.k WHEN MATCHED THEN DELETE",
        "CREATE TABLE {t}_clone CLONE {t}",
    ],
)
def test_dml_and_clones_need_the_true_filter(client: bigquery.Client, stand_in: str, table: str, sql: str) -> None:
    """ "Using row-level security with other BigQuery features": the TRUE filter; the owner of a table has none."""
    insert(client, table, "mine", "id = 1", grantees=[STAND_IN_USER])
    with pytest.raises(exceptions.Forbidden, match=r"filter TRUE that is granted to \[user:stand-in.*mine"):
        client.query_and_wait(sql.format(t=table))
    insert(client, table, "all", "(true)", grantees=["serviceAccount:airflow@p.iam.gserviceaccount.com"])
    with pytest.raises(exceptions.Forbidden, match="TRUE"):
        client.query_and_wait(sql.format(t=table))
    airflow = bigquery_client(stand_in, "airflow@p.iam.gserviceaccount.com")
    airflow.query_and_wait(sql.format(t=table))


def test_a_clone_of_a_tagged_column_needs_fine_grained_read(
    client: bigquery.Client, control: Control, table: str
) -> None:
    """ "Impact on writes with column-level access control": a copy checks the source's policy tags."""
    tag(client, table)
    with pytest.raises(exceptions.Forbidden, match=TAG):
        client.query_and_wait(f"CREATE TABLE {table}_clone CLONE {table}")
    control.grant(FINE_GRAINED_READ)
    client.query_and_wait(f"CREATE TABLE {table}_clone CLONE {table}")


@pytest.mark.parametrize(
    "past", ["SELECT id FROM {t} FOR SYSTEM_TIME AS OF @t", "CREATE TABLE {t}_c CLONE {t} FOR SYSTEM_TIME AS OF @t"]
)
def test_the_past_of_a_table_that_had_row_policies_needs_a_permission(
    client: bigquery.Client, control: Control, table: str, past: str
) -> None:
    """ "Data retention with time travel and fail-safe", time travel and row-level access."""
    before = control.now()
    moment = bigquery.QueryJobConfig(query_parameters=[bigquery.ScalarQueryParameter("t", "TIMESTAMP", before)])
    client.query(past.format(t=table).replace("_c ", "_before "), moment).result()
    insert(client, table, "mine")
    client.query_and_wait(f"DROP ALL ROW ACCESS POLICIES ON {table}")
    with pytest.raises(exceptions.Forbidden, match=OVERRIDE_TIME_TRAVEL):
        client.query(past.format(t=table), moment).result()
    control.grant(OVERRIDE_TIME_TRAVEL)
    client.query(past.format(t=table), moment).result()


def test_a_caller_may_ask_for_its_permissions(
    client: bigquery.Client, control: Control, stand_in: str, table: str
) -> None:
    """REST methods tables.testIamPermissions and rowAccessPolicies.testIamPermissions."""
    insert(client, table, "all", "TRUE", grantees=["user:a@example.com"])
    read, other = "bigquery.rowAccessPolicies.getFilteredData", bigquery_client(stand_in, "a@example.com")
    assert call(client, "POST", table, "/all:testIamPermissions", data={"permissions": [read]}) == {}
    assert call(other, "POST", table, "/all:testIamPermissions", data={"permissions": [read]}) == {
        "permissions": [read]
    }
    assert call(other, "POST", table, "/absent:testIamPermissions", data={"permissions": [read]}) == {}
    control.grant(OVERRIDE_TIME_TRAVEL)
    reference = client.get_table(f"{PROJECT}.{table}").reference
    assert client.test_iam_permissions(reference, [OVERRIDE_TIME_TRAVEL]) == {"permissions": [OVERRIDE_TIME_TRAVEL]}
    assert other.test_iam_permissions(reference, [OVERRIDE_TIME_TRAVEL]) == {}


def test_the_members_of_a_row_policy_are_in_its_iam_policy(client: bigquery.Client, table: str) -> None:
    """REST method rowAccessPolicies.getIamPolicy; "Filtered Data Viewer role" in "Manage row-level security"."""
    insert(client, table, "all", "TRUE", grantees=["user:a@example.com"])
    (binding,) = call(client, "POST", table, "/all:getIamPolicy", data={})["bindings"]
    assert binding == {"role": "roles/bigquery.filteredDataViewer", "members": ["user:a@example.com"]}
    with pytest.raises(exceptions.NotFound):
        call(client, "POST", table, "/absent:getIamPolicy", data={})
