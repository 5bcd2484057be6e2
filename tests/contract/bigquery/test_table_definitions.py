"""Primary keys, `max_staleness` and columns of a table: declared, changed, taken by clones, and refused as in BigQuery.

Pages: "Use primary and foreign keys", "Data definition language", "Stream table updates with change data capture",
"Modifying table schemas".
"""

from __future__ import annotations

from decimal import Decimal

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


def test_a_column_gets_a_less_restrictive_type_with_its_rows(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.t (n INT64 NOT NULL, s STRING)")
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (7, 'a')")
    client.query_and_wait(f"ALTER TABLE {dataset}.t ALTER COLUMN N SET DATA TYPE NUMERIC")
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (NUMERIC '0.5', 'b')")
    client.query_and_wait(f"CREATE TABLE {dataset}.c CLONE {dataset}.t")
    for table in ("t", "c"):
        found = rows_of(client, f"SELECT n FROM {dataset}.{table} ORDER BY n")
        assert found == [(Decimal("0.5"),), (Decimal(7),)]
    client.query_and_wait(f"UPDATE {dataset}.t SET n = n + 1 WHERE s = 'b'")
    assert rows_of(client, f"SELECT n FROM {dataset}.t ORDER BY n") == [(Decimal("1.5"),), (Decimal(7),)]
    field = client.get_table(f"{PROJECT}.{dataset}.t").schema[0]
    assert (field.name, field.field_type, field.mode) == ("n", "NUMERIC", "REQUIRED")
    for wrong in ("INT64", "STRING"):
        with pytest.raises(exceptions.BadRequest, match="is assignable to the new type"):
            client.query_and_wait(f"ALTER TABLE {dataset}.t ALTER COLUMN n SET DATA TYPE {wrong}")


def test_a_field_of_a_struct_gets_a_less_restrictive_type_with_the_whole_column(
    client: bigquery.Client, dataset: str
) -> None:
    """Page "Modifying table schemas", "Change a column's data type"; in arrays it is not supported."""
    client.query_and_wait(f"CREATE TABLE {dataset}.t (s STRUCT<a INT64, b STRING>, r ARRAY<STRUCT<a INT64>>)")
    client.query_and_wait(f"INSERT INTO {dataset}.t (s) VALUES (STRUCT(7 AS a, 'x' AS b)), (NULL)")
    alter = f"ALTER TABLE {dataset}.t ALTER COLUMN"
    client.query_and_wait(f"{alter} s SET DATA TYPE STRUCT<a NUMERIC, b STRING>")
    client.query_and_wait(f"INSERT INTO {dataset}.t (s) VALUES (STRUCT(NUMERIC '0.5' AS a, 'y' AS b))")
    found = rows_of(client, f"SELECT s.a, s.b FROM {dataset}.t ORDER BY 1")
    assert found == [(None, None), (Decimal("0.5"), "y"), (Decimal(7), "x")]
    fields = client.get_table(f"{PROJECT}.{dataset}.t").schema[0].fields
    assert [(field.name, field.field_type) for field in fields] == [("a", "NUMERIC"), ("b", "STRING")]
    for wrong in ("STRUCT<a INT64, b STRING>", "STRUCT<a NUMERIC>", "STRUCT<a NUMERIC, b STRING, c INT64>"):
        with pytest.raises(exceptions.BadRequest, match="is assignable to the new type"):
            client.query_and_wait(f"{alter} s SET DATA TYPE {wrong}")
    with pytest.raises(exceptions.MethodNotImplemented, match="ARRAY"):
        client.query_and_wait(f"{alter} r SET DATA TYPE ARRAY<STRUCT<a NUMERIC>>")


def test_not_null_is_dropped_once(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.t (n INT64 NOT NULL)")
    client.query_and_wait(f"ALTER TABLE {dataset}.t ALTER COLUMN n DROP NOT NULL")
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (NULL)")
    with pytest.raises(exceptions.BadRequest, match="not NOT NULL"):
        client.query_and_wait(f"ALTER TABLE {dataset}.t ALTER COLUMN n DROP NOT NULL")


def test_a_column_that_does_not_exist_is_left_out_only_with_if_exists(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.t (n INT64)")
    with pytest.raises(exceptions.BadRequest, match="Column not found: x"):
        client.query_and_wait(f"ALTER TABLE {dataset}.t ALTER COLUMN x DROP NOT NULL")
    client.query_and_wait(f"ALTER TABLE {dataset}.t ALTER COLUMN IF EXISTS x DROP NOT NULL")


def test_columns_are_added_by_a_patch_behind_all_others(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.t (n INT64)")
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (7)")
    table = client.get_table(f"{PROJECT}.{dataset}.t")
    table.schema = [*table.schema, bigquery.SchemaField("s", "STRING")]
    client.update_table(table, ["schema"])
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (8, 'a')")
    assert rows_of(client, f"SELECT n, s FROM {dataset}.t ORDER BY n") == [(7, None), (8, "a")]
    table = client.get_table(f"{PROJECT}.{dataset}.t")
    table.schema = [*table.schema, bigquery.SchemaField("must", "STRING", "REQUIRED")]
    with pytest.raises(exceptions.BadRequest, match="Cannot add required fields"):
        client.update_table(table, ["schema"])
