"""Row access policies and policy tags: created by REST and DDL, retained or dropped as in BigQuery, and never ignored.

Rules of "Use row-level security", "Using row-level security with other BigQuery features", "Restrict access with
column-level access control", the REST resource rowAccessPolicies, and F5 and F18.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from tests.contract.bigquery.emulator_client import (
    FINE_GRAINED_READ,
    OVERRIDE_TIME_TRAVEL,
    PROJECT,
    SCHEMA,
    STAND_IN_USER,
    TODAY,
    Control,
    bigquery_client,
    load,
    make_table,
    rows_of,
    snapshot,
    upload,
)

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
OTHER_TAG = "projects/p/locations/us/taxonomies/1/policyTags/3"


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    """A table with rows of today and without policies."""
    make_table(client, f"{dataset}.t")
    rows = [{"day": f"{TODAY}", "id": key, "number": 1} for key in (1, 2)]
    client.load_table_from_json(rows, f"{dataset}.t", job_config=bigquery.LoadJobConfig(schema=SCHEMA)).result()
    return f"{dataset}.t"


@pytest.fixture
def files(bucket: storage.Bucket) -> str:
    return upload(bucket, f"policies/{uuid.uuid4().hex}.parquet", snapshot([TODAY], 2))


def call(client: bigquery.Client, method: str, table: str, path: str = "", **options: Any) -> Any:
    """The client library has no method for row access policies."""
    dataset, name = table.split(".")
    address = f"/projects/{PROJECT}/datasets/{dataset}/tables/{name}/rowAccessPolicies{path}"
    return client._connection.api_request(method=method, path=address, **options)


def insert(client: bigquery.Client, table: str, name: str, predicate: str = "id = 1", **more: Any) -> Any:
    body = {"rowAccessPolicyReference": {"policyId": name}, "filterPredicate": predicate, **more}
    return call(client, "POST", table, data=body)


def policies(client: bigquery.Client, table: str) -> list[str]:
    listed = call(client, "GET", table).get("rowAccessPolicies", [])
    return [policy["rowAccessPolicyReference"]["policyId"] for policy in listed]


def tag(client: bigquery.Client, table: str, column: str = "number", name: str = TAG) -> None:
    found = client.get_table(f"{PROJECT}.{table}")
    found.schema = [
        bigquery.SchemaField(c.name, c.field_type, policy_tags=bigquery.PolicyTagList([name]))
        if c.name == column
        else c
        for c in found.schema
    ]
    client.update_table(found, ["schema"])


def tags(client: bigquery.Client, table: str) -> dict[str, str]:
    schema = client.get_table(f"{PROJECT}.{table}").schema
    return {c.name: c.policy_tags.names[0] for c in schema if c.policy_tags and c.policy_tags.names}


def ddl(client: bigquery.Client, sql: str) -> dict[str, Any]:
    """Runs a query and returns its query statistics."""
    job = client.query(sql)
    job.result()
    statistics: dict[str, Any] = job._properties["statistics"]["query"]
    return statistics


# -- row access policies by REST


def test_policy_is_made_read_listed_and_deleted_by_rest(client: bigquery.Client, table: str) -> None:
    made = insert(client, table, "mine", "id = 1 AND day IS NOT NULL", grantees=["user:a@example.com"])
    dataset, name = table.split(".")
    reference = {"projectId": PROJECT, "datasetId": dataset, "tableId": name, "policyId": "mine"}
    assert (made["rowAccessPolicyReference"], made["filterPredicate"]) == (reference, "id = 1 AND day IS NOT NULL")
    assert "grantees" not in made
    assert call(client, "GET", table, "/mine") == made
    insert(client, table, "yours")
    assert policies(client, table) == ["mine", "yours"]
    page = call(client, "GET", table, query_params={"pageSize": 1})
    rest = call(client, "GET", table, query_params={"pageSize": 1, "pageToken": page["nextPageToken"]})
    assert [len(answer["rowAccessPolicies"]) for answer in (page, rest)] == [1, 1]
    assert "nextPageToken" not in rest
    call(client, "DELETE", table, "/mine")
    assert policies(client, table) == ["yours"]


def test_last_policy_is_deleted_only_by_force(client: bigquery.Client, table: str) -> None:
    insert(client, table, "mine")
    with pytest.raises(exceptions.BadRequest, match="last one"):
        call(client, "DELETE", table, "/mine")
    call(client, "DELETE", table, "/mine", query_params={"force": "true"})
    assert policies(client, table) == []
    assert len(rows_of(client, f"SELECT * FROM {table}")) == 2


@pytest.mark.parametrize(
    ("name", "predicate", "grantees", "refusal"),
    [
        ("mine", "id", [], "must be of type BOOL"),
        ("mine", "nothing = 1", [], "nothing"),
        ("mine", "id = 1 extra", [], "Syntax error"),
        ("mine", "id = @id", [], "Query parameters"),
        ("mine", "", [], "Required parameter"),
        ("no dash-es", "id = 1", [], "policy id"),
        ("mine", "id = 1", ["somebody"], "Grantee"),
    ],
)
def test_invalid_policy_is_refused(
    client: bigquery.Client, table: str, name: str, predicate: str, grantees: list[str], refusal: str
) -> None:
    with pytest.raises(exceptions.BadRequest, match=refusal):
        insert(client, table, name, predicate, grantees=grantees)
    assert policies(client, table) == []


def test_policy_twice_or_of_nothing_is_refused(client: bigquery.Client, table: str) -> None:
    insert(client, table, "mine")
    with pytest.raises(exceptions.Conflict, match="mine"):
        insert(client, table, "mine")
    with pytest.raises(exceptions.NotFound, match="yours"):
        call(client, "GET", table, "/yours")
    with pytest.raises(exceptions.NotFound):
        insert(client, f"{table}_absent", "mine")
    with pytest.raises(exceptions.MethodNotImplemented, match="subquery"):
        insert(client, table, "yours", f"id IN (SELECT id FROM {table})")
    with pytest.raises(exceptions.MethodNotImplemented):
        call(client, "PUT", table, "/mine", data={})


# -- row access policies by DDL


def test_policy_is_made_replaced_and_dropped_by_ddl(client: bigquery.Client, table: str) -> None:
    create = f"ROW ACCESS POLICY mine ON {table} GRANT TO ('user:a@example.com') FILTER USING (id = 1)"
    made = ddl(client, f"CREATE {create}")
    assert (made["statementType"], made["ddlOperationPerformed"]) == ("CREATE_ROW_ACCESS_POLICY", "CREATE")
    assert made["ddlTargetRowAccessPolicy"]["policyId"] == "mine"
    with pytest.raises(exceptions.Conflict, match="mine"):
        ddl(client, f"CREATE {create}")
    absent = f"CREATE ROW ACCESS POLICY IF NOT EXISTS mine ON {table} FILTER USING (id = 2)"
    assert ddl(client, absent)["ddlOperationPerformed"] == "SKIP"
    assert call(client, "GET", table, "/mine")["filterPredicate"] == "id = 1"
    replaced = ddl(client, f"CREATE OR REPLACE ROW ACCESS POLICY mine ON {table} FILTER USING (id = 3)")
    assert replaced["ddlOperationPerformed"] == "REPLACE"
    assert call(client, "GET", table, "/mine")["filterPredicate"] == "id = 3"
    with pytest.raises(exceptions.BadRequest, match="DROP ALL ROW ACCESS POLICIES"):
        ddl(client, f"DROP ROW ACCESS POLICY mine ON {table}")
    ddl(client, f"CREATE ROW ACCESS POLICY yours ON {table} FILTER USING (TRUE)")
    dropped = ddl(client, f"DROP ROW ACCESS POLICY mine ON {table}")
    assert (dropped["statementType"], dropped["ddlOperationPerformed"]) == ("DROP_ROW_ACCESS_POLICY", "DROP")
    assert ddl(client, f"DROP ROW ACCESS POLICY IF EXISTS mine ON {table}")["ddlOperationPerformed"] == "SKIP"
    with pytest.raises(exceptions.NotFound, match="mine"):
        ddl(client, f"DROP ROW ACCESS POLICY mine ON {table}")
    assert ddl(client, f"DROP ALL ROW ACCESS POLICIES ON {table}")["ddlAffectedRowAccessPolicyCount"] == "1"
    assert policies(client, table) == []


def test_policy_works_in_a_script_and_a_dry_run_makes_none(client: bigquery.Client, table: str) -> None:
    create = f"CREATE ROW ACCESS POLICY mine ON {table} FILTER USING (id = 1)"
    dry = client.query(create, job_config=bigquery.QueryJobConfig(dry_run=True))
    assert dry.statement_type == "CREATE_ROW_ACCESS_POLICY"
    assert policies(client, table) == []
    client.query_and_wait(f"{create}; DROP ALL ROW ACCESS POLICIES ON {table}; {create}")
    assert policies(client, table) == ["mine"]


# -- policy tags


def test_policy_tag_is_kept_until_it_is_removed(client: bigquery.Client, dataset: str, table: str) -> None:
    tag(client, table)
    assert tags(client, table) == {"number": TAG}
    found = client.get_table(f"{PROJECT}.{table}")
    found.schema = [bigquery.SchemaField(c.name, c.field_type, description="new") for c in SCHEMA]
    client.update_table(found, ["schema"])
    assert tags(client, table) == {"number": TAG}  # fields that a request omits do not change
    found = client.get_table(f"{PROJECT}.{table}")
    found.schema = [bigquery.SchemaField(c.name, c.field_type, policy_tags=bigquery.PolicyTagList([])) for c in SCHEMA]
    client.update_table(found, ["schema"])
    assert tags(client, table) == {}
    tagged = [bigquery.SchemaField("a", "STRING", policy_tags=bigquery.PolicyTagList([OTHER_TAG]))]
    client.create_table(bigquery.Table(f"{PROJECT}.{dataset}.made", schema=tagged))
    assert tags(client, f"{dataset}.made") == {"a": OTHER_TAG}


# -- changes that retain or drop policies


@pytest.fixture
def protected(client: bigquery.Client, table: str) -> str:
    """A table with a row access policy and a policy tag on the column `number`."""
    tag(client, table)
    insert(client, table, "mine")
    return table


@pytest.fixture
def publisher(client: bigquery.Client, control: Control, protected: str) -> str:
    """The table of `protected`, on which the default user has all rights that it lacks as the dataset's owner."""
    insert(client, protected, "all", "TRUE", grantees=[STAND_IN_USER])
    control.grant(OVERRIDE_TIME_TRAVEL)
    control.grant(FINE_GRAINED_READ)
    return protected


def held(client: bigquery.Client, table: str) -> tuple[list[str], dict[str, str]]:
    return policies(client, table), tags(client, table)


BOTH = (["mine"], {"number": TAG})
ALL = (["mine", "all"], {"number": TAG})


@pytest.mark.parametrize(
    ("disposition", "partition", "left"),
    [
        ("WRITE_APPEND", "", BOTH),
        ("WRITE_TRUNCATE_DATA", "", BOTH),
        ("WRITE_TRUNCATE", f"${TODAY:%Y%m%d}", BOTH),
        ("WRITE_TRUNCATE", "", ([], {})),
    ],
)
def test_load_keeps_policies_unless_it_replaces_the_table(
    client: bigquery.Client, protected: str, files: str, disposition: str, partition: str, left: Any
) -> None:
    load(client, files, f"{protected}{partition}", disposition)
    assert held(client, protected) == left


def test_load_cannot_give_a_column_another_tag(client: bigquery.Client, protected: str, files: str) -> None:
    schema = [
        bigquery.SchemaField(c.name, c.field_type, policy_tags=bigquery.PolicyTagList([OTHER_TAG]))
        if c.name == "number"
        else c
        for c in SCHEMA
    ]
    with pytest.raises(exceptions.BadRequest, match="policy tags"):
        load(client, files, protected, "WRITE_APPEND", schema=schema)
    load(client, files, protected, "WRITE_TRUNCATE", schema=schema)
    assert held(client, protected) == ([], {"number": OTHER_TAG})


def test_query_that_replaces_the_table_drops_policies(client: bigquery.Client, publisher: str) -> None:
    rows = "SELECT CURRENT_DATE() AS day, 1 AS id, 2 AS number"
    client.query_and_wait(f"INSERT INTO {publisher} {rows}")
    client.query_and_wait(f"TRUNCATE TABLE {publisher}")
    assert held(client, publisher) == ALL
    client.query_and_wait(f"CREATE OR REPLACE TABLE {publisher} PARTITION BY day CLUSTER BY id AS {rows}")
    assert held(client, publisher) == ([], {})


def test_metadata_change_keeps_policies(client: bigquery.Client, protected: str) -> None:
    client.query_and_wait(f"ALTER TABLE {protected} SET OPTIONS (description = 'x')")
    found = client.get_table(f"{PROJECT}.{protected}")
    found.labels = {"a": "b"}
    client.update_table(found, ["labels"])
    assert held(client, protected) == BOTH


def test_clone_takes_the_policies_of_its_source(
    client: bigquery.Client, control: Control, dataset: str, publisher: str
) -> None:
    clone = f"{dataset}.clone"
    before = control.now()
    client.query_and_wait(f"CREATE TABLE {clone} CLONE {publisher}")
    assert held(client, clone) == ALL
    insert(client, clone, "own")
    client.query_and_wait(f"CREATE OR REPLACE TABLE {clone} CLONE {publisher}")
    assert held(client, clone) == ALL
    client.query_and_wait(f"DROP ALL ROW ACCESS POLICIES ON {publisher}")
    client.query_and_wait(f"CREATE OR REPLACE TABLE {clone} CLONE {publisher}")
    assert held(client, clone) == ([], {"number": TAG})
    moment = bigquery.QueryJobConfig(query_parameters=[bigquery.ScalarQueryParameter("t", "TIMESTAMP", before)])
    client.query(f"CREATE OR REPLACE TABLE {clone} CLONE {publisher} FOR SYSTEM_TIME AS OF @t", moment).result()
    assert held(client, clone) == ALL


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


def test_information_schema_lists_a_protected_table(client: bigquery.Client, dataset: str, protected: str) -> None:
    rows = rows_of(client, f"SELECT total_rows FROM {dataset}.INFORMATION_SCHEMA.PARTITIONS")
    assert rows == [(2,)]
