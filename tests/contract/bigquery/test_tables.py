"""Datasets, tables and rows through google-cloud-bigquery."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from google.api_core import exceptions
from google.cloud import bigquery

from tests.shared.stand_in_client import PROJECT, SCHEMA, load_rows, make_table


def test_dataset_can_be_made_read_listed_changed_and_deleted(client: bigquery.Client, dataset: str) -> None:
    found = client.get_dataset(dataset)
    assert (found.location, found.storage_billing_model) == ("US", None)
    found.description, found.labels, found.storage_billing_model = "rows", {"team": "data"}, "LOGICAL"
    changed = client.update_dataset(found, ["description", "labels", "storage_billing_model"])
    assert (changed.description, changed.labels, changed.storage_billing_model) == ("rows", {"team": "data"}, "LOGICAL")
    assert dataset in {item.dataset_id for item in client.list_datasets()}
    with pytest.raises(exceptions.Conflict, match="Already Exists: Dataset"):
        client.create_dataset(dataset)
    client.delete_dataset(dataset)
    with pytest.raises(exceptions.NotFound, match="Not found: Dataset"):
        client.get_dataset(dataset)


def test_a_deleted_dataset_is_restored_as_it_was(client: bigquery.Client, dataset: str) -> None:
    client.query_and_wait(f"CREATE TABLE {dataset}.t AS SELECT 7 AS id")
    client.query_and_wait(f"CREATE TABLE {dataset}.dropped_before AS SELECT 8 AS id")
    client.delete_table(f"{dataset}.dropped_before")
    client.delete_dataset(dataset, delete_contents=True)
    with pytest.raises(exceptions.NotFound, match="no deleted dataset"):
        client.query_and_wait(f"UNDROP SCHEMA {dataset} OPTIONS (location = 'EU')")
    client.query_and_wait(f"UNDROP SCHEMA {dataset}")
    assert [table.table_id for table in client.list_tables(dataset)] == ["t"]
    assert [row["id"] for row in client.query_and_wait(f"SELECT id FROM {dataset}.t")] == [7]
    client.query_and_wait(f"UNDROP SCHEMA IF NOT EXISTS {dataset}")
    with pytest.raises(exceptions.Conflict, match="Already Exists"):
        client.query_and_wait(f"UNDROP SCHEMA {dataset}")
    with pytest.raises(exceptions.BadRequest, match="within the next seven days"):
        client.delete_dataset(dataset, delete_contents=True)
    client._connection.api_request(method="PUT", path=f"/projects/{PROJECT}/datasets/{dataset}", data={})
    with pytest.raises(exceptions.BadRequest, match="within the next seven days"):
        client.delete_dataset(dataset, delete_contents=True)


def test_a_dataset_that_was_created_again_cannot_be_restored(client: bigquery.Client) -> None:
    for _ in range(2):
        client.create_dataset("made_again")
        client.delete_dataset("made_again")
    client.create_dataset("made_again")
    with pytest.raises(exceptions.Conflict):
        client.query_and_wait("UNDROP SCHEMA made_again")


def test_table_keeps_layout_and_metadata(client: bigquery.Client, dataset: str) -> None:
    make_table(client, f"{dataset}.t")
    table = client.get_table(f"{dataset}.t")
    assert table.schema == SCHEMA
    assert (table.time_partitioning.field, table.time_partitioning.expiration_ms) == ("day", 730 * 86_400_000)
    assert (table.clustering_fields, table.num_rows, table.streaming_buffer) == (["id"], 0, None)
    table.description, table.labels = "rows", {"generation": "1"}
    table = client.update_table(table, ["description", "labels"])
    table.labels = {"generation": None}
    assert client.update_table(table, ["labels"]).labels == {}
    with pytest.raises(exceptions.Conflict, match="Already Exists: Table"):
        make_table(client, f"{dataset}.t")
    assert [item.table_id for item in client.list_tables(dataset)] == ["t"]
    client.delete_table(f"{dataset}.t")
    assert list(client.list_tables(dataset)) == []


def test_new_tables_get_the_default_expiration_of_their_dataset(client: bigquery.Client, dataset: str) -> None:
    """Source: REST resource datasets, defaultTableExpirationMs. Clones are taken for new tables, which no page says."""
    make_table(client, f"{dataset}.before")
    changed = client.get_dataset(dataset)
    changed.default_table_expiration_ms = 3_599_999
    with pytest.raises(exceptions.BadRequest, match="at least"):
        client.update_dataset(changed, ["default_table_expiration_ms"])
    changed.default_table_expiration_ms = 3_600_000
    changed = client.update_dataset(changed, ["default_table_expiration_ms"])
    assert changed.default_table_expiration_ms == 3_600_000
    make_table(client, f"{dataset}.made")
    client.query_and_wait(f"CREATE TABLE {dataset}.by_query AS SELECT 1 AS id")
    client.query_and_wait(
        f"CREATE TABLE {dataset}.own (id INT64) OPTIONS (expiration_timestamp = TIMESTAMP '2100-01-01')"
    )
    for _ in range(2):
        client.query_and_wait(f"CREATE OR REPLACE TABLE {dataset}.cloned CLONE {dataset}.before")
    load_rows(client, f"{dataset}.before", [(date(2026, 1, 31), 1, 1)])
    found = {name: client.get_table(f"{dataset}.{name}") for name in ("before", "made", "by_query", "own", "cloned")}
    assert found.pop("before").expires is None
    assert found.pop("own").expires == datetime(2100, 1, 1, tzinfo=UTC)
    assert {name: table.expires - table.created for name, table in found.items()} == dict.fromkeys(
        found, timedelta(hours=1)
    )
    changed.default_table_expiration_ms = None
    assert client.update_dataset(changed, ["default_table_expiration_ms"]).default_table_expiration_ms is None


def test_new_partitioned_tables_get_the_default_expiration_of_partitions_instead(client: bigquery.Client) -> None:
    """Source: REST resource datasets, defaultPartitionExpirationMs."""
    client.query_and_wait(
        "CREATE SCHEMA with_defaults OPTIONS (default_table_expiration_days = 1, default_partition_expiration_days = 9)"
    )
    make_table(client, "with_defaults.plain", expiration_days=None)
    make_table(client, "with_defaults.own")
    client.query_and_wait("CREATE TABLE with_defaults.unpartitioned AS SELECT 1 AS id")
    plain, own, unpartitioned = (
        client.get_table(f"with_defaults.{name}") for name in ("plain", "own", "unpartitioned")
    )
    assert [table.time_partitioning.expiration_ms // 86_400_000 for table in (plain, own)] == [9, 730]
    assert [table.expires is None for table in (plain, own, unpartitioned)] == [True, True, False]


def test_change_with_a_stale_etag_is_refused(client: bigquery.Client, dataset: str) -> None:
    make_table(client, f"{dataset}.t")
    first, second = client.get_table(f"{dataset}.t"), client.get_table(f"{dataset}.t")
    first.description = "first"
    client.update_table(first, ["description"])
    second.description = "second"
    with pytest.raises(exceptions.PreconditionFailed):
        client.update_table(second, ["description"])


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"rangePartitioning": {"field": "id", "range": {"start": "0", "end": "9", "interval": "1"}}}, "range"),
        ({"timePartitioning": {"type": "HOUR", "field": "day"}}, "timePartitioning.type HOUR"),
        ({"timePartitioning": {"type": "DAY"}}, "ingestion time"),
        ({"view": {"query": "SELECT 1"}}, "view"),
        ({"tableConstraints": {"foreignKeys": [{"name": "a"}]}}, "tableConstraints.foreignKeys"),
        ({"schema": {"fields": [{"name": "a", "type": "STRING", "collation": "und:ci"}]}}, "collation"),
    ],
)
def test_table_fields_that_are_not_carried_out_are_refused_by_name(
    client: bigquery.Client, dataset: str, change: dict[str, object], name: str
) -> None:
    body = {"tableReference": {"projectId": PROJECT, "datasetId": dataset, "tableId": "t"}, **change}
    with pytest.raises(exceptions.MethodNotImplemented, match=name):
        client.create_table(bigquery.Table.from_api_repr(body))


def test_misspelt_field_is_refused_as_bigquery_does(client: bigquery.Client, dataset: str) -> None:
    body = {"tableReference": {"projectId": PROJECT, "datasetId": dataset, "tableId": "t"}, "clusterin": {}}
    with pytest.raises(exceptions.BadRequest, match='Unknown name "clusterin"'):
        client.create_table(bigquery.Table.from_api_repr(body))


def test_rows_of_every_type_come_back_as_they_were_loaded(client: bigquery.Client, dataset: str) -> None:
    row = {
        "i": -(2**63),
        "f": 1.5,
        "b": True,
        "s": "é\n",
        "y": "AP8=",
        "d": "2026-01-31",
        "dt": "2026-01-31T01:02:03.000004",
        "t": "01:02:03",
        "ts": "2026-01-31T01:02:03.000004Z",
        "n": "12.345678901",
        "l": [1, 2],
        "r": {"x": "y", "z": [{"w": 1.0}]},
    }
    kinds = {"i": "INT64", "f": "FLOAT64", "b": "BOOL", "s": "STRING", "y": "BYTES", "d": "DATE", "dt": "DATETIME",
             "t": "TIME", "ts": "TIMESTAMP", "n": "NUMERIC"}  # fmt: skip
    schema = [bigquery.SchemaField(name, kind) for name, kind in kinds.items()]
    schema.append(bigquery.SchemaField("l", "INT64", mode="REPEATED"))
    inner = bigquery.SchemaField("z", "RECORD", mode="REPEATED", fields=[bigquery.SchemaField("w", "FLOAT64")])
    schema.append(bigquery.SchemaField("r", "RECORD", fields=[bigquery.SchemaField("x", "STRING"), inner]))
    config = bigquery.LoadJobConfig(schema=schema)
    client.load_table_from_json([row, {}], f"{dataset}.t", job_config=config).result()
    expected = {
        **row,
        "y": b"\x00\xff",
        "d": date(2026, 1, 31),
        "dt": datetime(2026, 1, 31, 1, 2, 3, 4),  # noqa: DTZ001  # DATETIME has no zone
        "t": datetime(2026, 1, 31, 1, 2, 3).time(),  # noqa: DTZ001
        "ts": datetime(2026, 1, 31, 1, 2, 3, 4, tzinfo=UTC),
        "n": Decimal("12.345678901"),
    }
    listed = [dict(item) for item in client.list_rows(f"{dataset}.t")]
    queried = [dict(item) for item in client.query(f"SELECT * FROM {dataset}.t").result()]
    assert listed == queried
    assert listed[0] == expected
    assert listed[1] == {**dict.fromkeys(expected), "l": []}


def test_rows_are_paged_and_columns_selected(client: bigquery.Client, dataset: str) -> None:
    make_table(client, f"{dataset}.t")
    load_rows(client, f"{dataset}.t", [(date(2026, 1, 31), number, 0) for number in range(25)])
    found = client.list_rows(f"{dataset}.t", page_size=10, selected_fields=[SCHEMA[1]])
    pages = [[tuple(row.values()) for row in page] for page in found.pages]
    assert [len(page) for page in pages] == [10, 10, 5]
    assert sorted(row for page in pages for row in page) == [(number,) for number in range(25)]
    assert len(list(client.list_rows(f"{dataset}.t", start_index=20))) == 5


def test_null_removes_the_required_partition_filter(client: bigquery.Client, dataset: str) -> None:
    table = make_table(client, f"{dataset}.t")
    for required in (True, None):
        table.require_partition_filter = required
        table = client.update_table(table, ["require_partition_filter"])
        assert table.require_partition_filter is required


def test_layout_and_key_may_spell_columns_in_another_case(client: bigquery.Client, dataset: str) -> None:
    partitioning = bigquery.TimePartitioning(field="DAY")
    config = bigquery.LoadJobConfig(schema=SCHEMA, time_partitioning=partitioning, clustering_fields=["ID"])
    for _ in range(2):  # creates the table, then states the layout of an existing one
        client.load_table_from_json([{"day": "2026-01-31", "id": 1}], f"{dataset}.t", job_config=config).result()
    table = bigquery.Table(f"{PROJECT}.{dataset}.u", schema=SCHEMA)
    table.time_partitioning, table.clustering_fields = partitioning, ["ID"]
    for made in (client.get_table(f"{dataset}.t"), client.create_table(table)):
        assert made.time_partitioning is not None
        assert (made.time_partitioning.field, made.clustering_fields) == ("day", ["id"])


def test_rows_of_a_partition_need_a_partitioned_table(client: bigquery.Client, dataset: str) -> None:
    client.load_table_from_json([{"n": 1}], f"{dataset}.t", job_config=_numbers("WRITE_EMPTY")).result()
    partition = bigquery.TableReference.from_string(f"{PROJECT}.{dataset}.t$20260131")
    with pytest.raises(exceptions.BadRequest, match="is not partitioned"):
        list(client.list_rows(partition, selected_fields=[bigquery.SchemaField("n", "INT64")]))


def test_page_of_a_replaced_table_is_of_the_version_of_the_first_page(client: bigquery.Client, dataset: str) -> None:
    rows = [{"n": number} for number in range(20)]
    client.load_table_from_json(rows, f"{dataset}.t", job_config=_numbers("WRITE_TRUNCATE")).result()
    pages = client.list_rows(f"{dataset}.t", page_size=10).pages
    first = [row["n"] for row in next(pages)]
    client.load_table_from_json([{"n": -1}], f"{dataset}.t", job_config=_numbers("WRITE_TRUNCATE")).result()
    assert sorted(first + [row["n"] for row in next(pages)]) == list(range(20))


def _numbers(disposition: str) -> bigquery.LoadJobConfig:
    return bigquery.LoadJobConfig(schema=[bigquery.SchemaField("n", "INT64")], write_disposition=disposition)
