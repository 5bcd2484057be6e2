"""Row access policies and policy tags: created by REST and DDL, retained or dropped as in BigQuery, and never ignored.

Rules of "Use row-level security", "Using row-level security with other BigQuery features", "Restrict access with
column-level access control", the REST resource rowAccessPolicies, and F5 and F18.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from tests.contract.bigquery.policy_calls import (
    OTHER_TAG,
    TAG,
    call,
    ddl,
    insert,
    make_unprotected,
    policies,
    tag,
    tags,
)
from tests.shared.stand_in_client import (
    FINE_GRAINED_READ,
    OVERRIDE_TIME_TRAVEL,
    PROJECT,
    SCHEMA,
    STAND_IN_USER,
    TODAY,
    Control,
    load,
    rows_of,
    snapshot,
    upload,
)


@pytest.fixture
def table(client: bigquery.Client, dataset: str) -> str:
    return make_unprotected(client, dataset)


@pytest.fixture
def files(bucket: storage.Bucket) -> str:
    return upload(bucket, f"policies/{uuid.uuid4().hex}.parquet", snapshot([TODAY], 2))


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


def test_information_schema_lists_a_protected_table(client: bigquery.Client, dataset: str, protected: str) -> None:
    rows = rows_of(client, f"SELECT total_rows FROM {dataset}.INFORMATION_SCHEMA.PARTITIONS")
    assert rows == [(2,)]
