"""Changed columns: ALTER COLUMN (page "Data definition language"), tables.patch (page "Modifying table schemas")."""

from __future__ import annotations

from decimal import Decimal

import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from tests.contract.bigquery.emulator_client import PROJECT, rows_of


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
