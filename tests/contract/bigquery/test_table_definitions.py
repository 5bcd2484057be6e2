"""Primary keys, `max_staleness` and columns of a table: declared, changed, taken by clones, and refused as in BigQuery.

Pages: "Use primary and foreign keys", "Data definition language", "Stream table updates with change data capture",
"Modifying table schemas", "Specify nested and repeated columns".
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from tests.shared.stand_in_client import PROJECT, rows_of


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


def test_an_update_of_properties_keeps_rows_of_before_a_column_got_another_type(
    client: bigquery.Client, dataset: str
) -> None:
    """REST method tables.update, which the client library does not call."""
    client.query_and_wait(f"CREATE TABLE {dataset}.t (n INT64)")
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (7)")
    client.query_and_wait(f"ALTER TABLE {dataset}.t ALTER COLUMN n SET DATA TYPE NUMERIC")
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (NUMERIC '0.5')")
    path = f"/projects/{PROJECT}/datasets/{dataset}/tables/t"
    client._connection.api_request(method="PUT", path=path, data={"description": "new"})
    assert rows_of(client, f"SELECT n FROM {dataset}.t ORDER BY n") == [(Decimal("0.5"),), (Decimal(7),)]


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


PARAMETERIZED = (
    "s STRING(3), y BYTES(2), n NUMERIC(5, 2), whole NUMERIC(4), l ARRAY<STRING(2)>, r STRUCT<s STRING(1), i INT64>"
)
FITTING = {"s": "\u00e4bc", "y": "AQI=", "n": "1.125", "whole": "9999", "l": ["a", "bc"], "r": {"s": "x", "i": 1}}


@pytest.fixture
def parameterized(client: bigquery.Client, dataset: str) -> str:
    client.query_and_wait(f"CREATE TABLE {dataset}.p ({PARAMETERIZED})")
    return f"{dataset}.p"


def test_parameters_of_types_are_in_the_schema_of_a_table_and_its_clones(
    client: bigquery.Client, dataset: str, parameterized: str
) -> None:
    """Source: REST resource tables, maxLength, precision, scale; "Data types": results of expressions have none."""
    client.query_and_wait(f"CREATE TABLE {dataset}.clone CLONE {parameterized}")
    client.query_and_wait(f"CREATE TABLE {dataset}.result AS SELECT s, n FROM {parameterized}")
    for name in ("p", "clone"):
        fields = {field.name: field for field in client.get_table(f"{dataset}.{name}").schema}
        assert (fields["s"].max_length, fields["l"].max_length, fields["r"].fields[0].max_length) == (3, 2, 1)
        assert [(fields[n].precision, fields[n].scale) for n in ("n", "whole")] == [(5, 2), (4, 0)]
    assert [field.max_length for field in client.get_table(f"{dataset}.result").schema] == [None, None]
    view = f"{dataset}.INFORMATION_SCHEMA.COLUMNS"
    types = rows_of(client, f"SELECT data_type FROM {view} WHERE table_name = 'p' ORDER BY ordinal_position")
    shown = ["STRING(3)", "BYTES(2)", "NUMERIC(5, 2)", "NUMERIC(4, 0)", "ARRAY<STRING(2)>"]
    assert [kind for (kind,) in types] == [*shown, "STRUCT<s STRING(1), i INT64>"]
    copied = client.create_table(bigquery.Table(f"{PROJECT}.{dataset}.copy", client.get_table(parameterized).schema))
    assert copied.schema == client.get_table(parameterized).schema


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"s": "abcd"}, r"STRING\(3\) has maximum length 3 but got a value with length 4"),
        ({"y": "AQID"}, r"BYTES\(2\) has maximum length 2"),
        ({"n": "999.995"}, r"NUMERIC\(5, 2\) has precision 5 and scale 2 .*\[-999.99, 999.99\]"),
        ({"whole": "10000"}, r"NUMERIC\(4, 0\) .*\[-9999, 9999\]"),
        ({"l": ["a", "bcd"]}, r"STRING\(2\) has maximum length 2"),
        ({"r": {"s": "xy", "i": 1}}, r"STRING\(1\) has maximum length 1"),
    ],
)
def test_values_that_do_not_fit_are_refused_on_every_way(
    client: bigquery.Client, parameterized: str, change: dict[str, object], message: str
) -> None:
    """Source: "Data types", parameterized data types."""
    row = FITTING | change
    with pytest.raises(exceptions.BadRequest, match=message):
        client.load_table_from_json([row], parameterized).result()
    with pytest.raises(exceptions.BadRequest, match=message):
        client.query_and_wait(f"INSERT {parameterized} SELECT {sql_values(row)}")
    client.load_table_from_json([FITTING], parameterized).result()
    ((name, value),) = change.items()
    with pytest.raises(exceptions.BadRequest, match=message):
        client.query_and_wait(f"UPDATE {parameterized} SET {name} = {sql_value(name, value)} WHERE TRUE")
    assert rows_of(client, f"SELECT n FROM {parameterized}") == [(Decimal("1.13"),)]


def sql_value(name: str, value: Any) -> str:
    if isinstance(value, list):
        return str(value)
    if isinstance(value, dict):
        return f"STRUCT('{value['s']}' AS s, {value['i']} AS i)"
    return {"y": f"FROM_BASE64('{value}')", "s": f"'{value}'"}.get(name, f"NUMERIC '{value}'")


def sql_values(row: dict[str, Any]) -> str:
    return ", ".join(f"{sql_value(name, value)} AS {name}" for name, value in row.items())


@pytest.mark.parametrize("kind", ["STRING(0)", "STRING(1, 2)", "NUMERIC(40)", "NUMERIC(2, 10)", "INT64(3)", "DATE(1)"])
def test_types_that_cannot_have_these_parameters_are_refused(client: bigquery.Client, dataset: str, kind: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="is not a type"):
        client.query_and_wait(f"CREATE TABLE {dataset}.t (a {kind})")


def test_parameters_become_less_restrictive_only(client: bigquery.Client, parameterized: str) -> None:
    """Source: Data definition language, ALTER COLUMN SET DATA TYPE."""
    alter = f"ALTER TABLE {parameterized} ALTER COLUMN"
    for change in ("s SET DATA TYPE STRING(2)", "n SET DATA TYPE NUMERIC(5, 3)"):
        with pytest.raises(exceptions.BadRequest, match="is assignable to the new type"):
            client.query_and_wait(f"{alter} {change}")
    for change in ("s SET DATA TYPE STRING(5)", "n SET DATA TYPE NUMERIC(7, 3)", "y SET DATA TYPE BYTES"):
        client.query_and_wait(f"{alter} {change}")
    fields = {field.name: field for field in client.get_table(parameterized).schema}
    assert (fields["s"].max_length, fields["n"].precision, fields["y"].max_length) == (5, 7, None)


def test_required_columns_become_nullable_by_a_patch_also_in_records(client: bigquery.Client, dataset: str) -> None:
    inner = "x INT64 NOT NULL"
    client.query_and_wait(f"CREATE TABLE {dataset}.t ({inner}, s STRUCT<{inner}>, a ARRAY<STRUCT<{inner}>>)")
    client.query_and_wait(f"INSERT INTO {dataset}.t VALUES (1, STRUCT(1 AS x), [STRUCT(1 AS x)])")

    def set_mode(mode: str) -> None:
        table = client.get_table(f"{PROJECT}.{dataset}.t")
        number = bigquery.SchemaField("x", "INTEGER", mode)
        records = [bigquery.SchemaField(f.name, "RECORD", f.mode, fields=[number]) for f in table.schema[1:]]
        table.schema = [number, *records]
        client.update_table(table, ["schema"])

    set_mode("NULLABLE")
    client.query_and_wait(
        f"INSERT INTO {dataset}.t (s, a) VALUES (STRUCT(CAST(NULL AS INT64) AS x), [STRUCT(CAST(NULL AS INT64) AS x)])"
    )
    found = rows_of(client, f"SELECT x, s.x AS y, a[0].x AS z FROM {dataset}.t ORDER BY 1 DESC")
    assert found == [(1, 1, 1), (None, None, None)]
    with pytest.raises(exceptions.MethodNotImplemented, match="change of columns"):
        set_mode("REQUIRED")
