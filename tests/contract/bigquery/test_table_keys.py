"""Primary keys and `max_staleness`: in DDL and REST, kept by clones and loads, and refused where BigQuery refuses them.

Pages: "Use primary and foreign keys", "Data definition language", "Stream table updates with change data capture".
"""

from __future__ import annotations

import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from tests.contract.bigquery.emulator_client import PROJECT, rows_of


def key_of(client: bigquery.Client, table: str) -> list[str] | None:
    constraints = client.get_table(f"{PROJECT}.{table}").table_constraints
    return constraints.primary_key.columns if constraints else None


def staleness_of(client: bigquery.Client, table: str) -> str | None:
    staleness: str | None = client.get_table(f"{PROJECT}.{table}")._properties.get("maxStaleness")
    return staleness


def test_key_and_staleness_are_declared_in_ddl(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(
        f"CREATE TABLE {dataset}.t (id INT64 PRIMARY KEY NOT ENFORCED, name STRING) CLUSTER BY id "
        "OPTIONS (max_staleness = INTERVAL 10 MINUTE)"
    )
    assert key_of(client, f"{dataset}.t") == ["id"]
    assert staleness_of(client, f"{dataset}.t") == "0-0 0 0:10:0"
    client.query_and_wait(f"ALTER TABLE {dataset}.t SET OPTIONS (max_staleness = INTERVAL '0:15:0' HOUR TO SECOND)")
    options = f"SELECT option_type, option_value FROM {dataset}.INFORMATION_SCHEMA.TABLE_OPTIONS"
    assert rows_of(client, f"{options} WHERE option_name = 'max_staleness'") == [("INTERVAL", "0-0 0 0:15:0")]
    client.query_and_wait(f"ALTER TABLE {dataset}.t SET OPTIONS (max_staleness = NULL)")
    assert staleness_of(client, f"{dataset}.t") is None


def test_key_is_added_once_and_dropped_by_alter_table(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.t (a INT64, b STRING)")
    client.query_and_wait(f"ALTER TABLE {dataset}.t ADD PRIMARY KEY (B, a) NOT ENFORCED")
    assert key_of(client, f"{dataset}.t") == ["b", "a"]
    with pytest.raises(exceptions.BadRequest, match="Already Exists: Primary key"):
        client.query_and_wait(f"ALTER TABLE {dataset}.t ADD PRIMARY KEY (a) NOT ENFORCED")
    client.query_and_wait(f"ALTER TABLE {dataset}.t DROP PRIMARY KEY")
    assert key_of(client, f"{dataset}.t") is None
    client.query_and_wait(f"ALTER TABLE {dataset}.t DROP PRIMARY KEY IF EXISTS")
    with pytest.raises(exceptions.BadRequest, match="Not found: Primary key"):
        client.query_and_wait(f"ALTER TABLE {dataset}.t DROP PRIMARY KEY")


def test_clone_has_the_key_of_its_source_and_not_its_staleness(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(
        f"CREATE TABLE {dataset}.s (a INT64, PRIMARY KEY (a) NOT ENFORCED) OPTIONS (max_staleness = INTERVAL 1 HOUR)"
    )
    client.query_and_wait(f"CREATE TABLE {dataset}.t CLONE {dataset}.s")
    assert (key_of(client, f"{dataset}.t"), staleness_of(client, f"{dataset}.t")) == (["a"], None)
    client.query_and_wait(f"CREATE OR REPLACE TABLE {dataset}.s (a INT64)")
    assert (key_of(client, f"{dataset}.s"), staleness_of(client, f"{dataset}.s")) == (None, None)


def test_staleness_is_set_by_rest(client: bigquery.Client, dataset: str) -> None:
    table = bigquery.Table(f"{PROJECT}.{dataset}.t", [bigquery.SchemaField("a", "INTEGER")])
    table._properties["maxStaleness"] = "0-0 0 00:10:00"
    table = client.create_table(table)
    assert staleness_of(client, f"{dataset}.t") == "0-0 0 0:10:0"
    table._properties["maxStaleness"] = "ten minutes"
    with pytest.raises(exceptions.BadRequest, match="max_staleness"):
        client.update_table(table, ["maxStaleness"])
    table._properties["maxStaleness"] = None
    client.update_table(table, ["maxStaleness"])
    assert staleness_of(client, f"{dataset}.t") is None


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (", ".join(f"c{number} INT64" for number in range(17)), r"\[17\] columns, allowed \[16\]"),
        ("c0 FLOAT64", "cannot be in the primary key"),
        ("c0 ARRAY<INT64>", "cannot be in the primary key"),
        ("c0 STRUCT<a INT64>", "cannot be in the primary key"),
        ("c0 TIME", "cannot be in the primary key"),
    ],
)
def test_key_has_at_most_sixteen_top_level_columns_of_some_types(
    client: bigquery.Client, dataset: str, columns: str, message: str
) -> None:
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    with pytest.raises(exceptions.BadRequest, match=message):
        client.query_and_wait(f"CREATE TABLE {dataset}.t ({columns}, PRIMARY KEY ({names}) NOT ENFORCED)")
