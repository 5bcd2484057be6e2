"""CREATE OR REPLACE TABLE … CLONE as the atomic swap: time travel, options, refusals, readers."""

from __future__ import annotations

import threading
import uuid
from datetime import datetime, timedelta
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud import bigquery, storage

from tests.shared.stand_in_client import (
    PROJECT,
    SCHEMA,
    TODAY,
    Control,
    days_ago,
    load,
    make_table,
    numbers_by_day,
    rows_of,
    snapshot,
    upload,
)

SWAP = """
ASSERT (
  SELECT COUNT(*) = 1 FROM {dataset}.INFORMATION_SCHEMA.TABLE_OPTIONS
  WHERE table_name = 'target' AND option_name = 'labels' AND option_value = @labels
) AS 'target is not at the expected generation';
CREATE OR REPLACE TABLE {dataset}.target CLONE {dataset}.staging FOR SYSTEM_TIME AS OF @moment
OPTIONS (labels = [('generation', '2')], description = 'swapped', partition_expiration_days = 730);
"""


def put(client: bigquery.Client, table: str, number: int) -> None:
    """Two days of two rows each, all with the same number."""
    rows = [{"day": f"{day}", "id": key, "number": number} for day in (days_ago(1), TODAY) for key in (1, 2)]
    config = bigquery.LoadJobConfig(schema=SCHEMA, write_disposition="WRITE_TRUNCATE_DATA")
    client.load_table_from_json(rows, table, job_config=config).result()


@pytest.fixture
def tables(client: bigquery.Client, dataset: str) -> str:
    """A dataset with staging and a target cloned from it."""
    make_table(client, f"{dataset}.staging")
    put(client, f"{dataset}.staging", 1)
    client.query_and_wait(
        f"CREATE TABLE {dataset}.target CLONE {dataset}.staging OPTIONS (labels = [('generation', '1')])"
    )
    return dataset


def swap(client: bigquery.Client, dataset: str, moment: datetime, labels: str) -> bigquery.QueryJob:
    parameters = [
        bigquery.ScalarQueryParameter("moment", "TIMESTAMP", moment),
        bigquery.ScalarQueryParameter("labels", "STRING", labels),
    ]
    config = bigquery.QueryJobConfig(query_parameters=parameters)
    job = client.query(SWAP.format(dataset=dataset), job_config=config)
    job.result()
    return job


def clone_of(client: bigquery.Client, table: str) -> Any:
    """The table's cloneDefinition, None without one. The library's own property fails for a time on a full second."""
    return client.get_table(table).to_api_repr().get("cloneDefinition")


def test_a_load_that_replaces_one_partition_leaves_a_clone_a_clone(
    client: bigquery.Client, bucket: storage.Bucket, tables: str
) -> None:
    before = clone_of(client, f"{tables}.target")
    uri = upload(bucket, f"clones/{uuid.uuid4().hex}.parquet", snapshot([TODAY], 2))
    load(client, uri, f"{tables}.target${TODAY:%Y%m%d}", "WRITE_TRUNCATE")
    assert numbers_by_day(client, f"{tables}.target") == {days_ago(1): {1}, TODAY: {2}}
    assert clone_of(client, f"{tables}.target") == before is not None


def test_swap_takes_staging_as_of_a_time_and_reports_it(client: bigquery.Client, tables: str, control: Control) -> None:
    moment = control.now()
    put(client, f"{tables}.staging", 2)
    job = swap(client, tables, moment, '[STRUCT("generation", "1")]')
    assert numbers_by_day(client, f"{tables}.target") == {days_ago(1): {1}, TODAY: {1}}
    target = client.get_table(f"{tables}.target")
    assert (target.labels, target.description) == ({"generation": "2"}, "swapped")
    assert target.time_partitioning.expiration_ms == 730 * 86_400_000
    assert target.clustering_fields == ["id"]
    clone = clone_of(client, f"{tables}.target")
    assert clone["baseTableReference"]["tableId"] == "staging"
    shown = datetime.fromisoformat(clone["cloneTime"])
    assert shown == moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    assert (job.statement_type, job.num_child_jobs) == ("SCRIPT", 2)
    asserted, cloned = sorted(client.list_jobs(parent_job=job), key=lambda child: child.job_id)
    assert (asserted.statement_type, cloned.statement_type) == ("ASSERT", "CREATE_TABLE")
    assert cloned.ddl_operation_performed == "REPLACE"
    assert cloned.ddl_target_table.table_id == "target"
    assert (job.total_bytes_processed, job.total_bytes_billed) == (0, 10 * 1024 * 1024)


@pytest.mark.parametrize(("microsecond", "digits"), [(0, ""), (120_000, ".120"), (123_456, ".123")])
def test_clone_times_are_shown_in_milliseconds(
    microsecond: int, digits: str, client: bigquery.Client, tables: str, control: Control
) -> None:
    """Source: table-snapshots-metadata (the time shown), information-schema-tables (snapshot_time_ms).

    Google's JSON has 0, 3, 6 or 9 digits after the second (json.proto3 of google.protobuf.Timestamp).
    """
    moment = control.now().replace(microsecond=microsecond) + timedelta(seconds=1)
    control.advance(seconds=2)
    as_of = f"FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'"
    client.query_and_wait(f"CREATE TABLE {tables}.copy CLONE {tables}.staging {as_of}")
    view = f"{tables}.INFORMATION_SCHEMA.TABLES"
    ((listed,),) = client.query_and_wait(f"SELECT snapshot_time_ms FROM {view} WHERE table_name = 'copy'")
    assert listed == moment.replace(microsecond=microsecond // 1000 * 1000)
    shown = clone_of(client, f"{tables}.copy")["cloneTime"]
    assert shown == f"{moment:%Y-%m-%dT%H:%M:%S}{digits}Z"


def test_a_replaced_table_was_created_when_it_was_replaced(client: bigquery.Client, tables: str) -> None:
    """No page says so; `make probe` tests it."""
    first, staging = client.get_table(f"{tables}.target").created, client.get_table(f"{tables}.staging").created
    put(client, f"{tables}.staging", 2)
    client.query_and_wait(f"CREATE OR REPLACE TABLE {tables}.target CLONE {tables}.staging")
    assert client.get_table(f"{tables}.target").created > first
    assert client.get_table(f"{tables}.staging").created == staging


def test_swap_refuses_another_generation_and_changes_nothing(client: bigquery.Client, tables: str) -> None:
    put(client, f"{tables}.staging", 2)
    with pytest.raises(exceptions.BadRequest, match="target is not at the expected generation"):
        swap(client, tables, datetime.now().astimezone(), '[STRUCT("generation", "7")]')
    assert numbers_by_day(client, f"{tables}.target") == {days_ago(1): {1}, TODAY: {1}}


def test_clone_takes_no_options_of_its_source(client: bigquery.Client, tables: str) -> None:
    """Whether BigQuery copies the partition expiration is not documented, so nothing may rely on it."""
    client.query_and_wait(f"CREATE OR REPLACE TABLE {tables}.target CLONE {tables}.staging")
    target = client.get_table(f"{tables}.target")
    assert (target.labels, target.time_partitioning.expiration_ms) == ({}, None)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("CLUSTER BY id", "different partitioning spec"),
        ("PARTITION BY day CLUSTER BY number", "different clustering spec"),
        ("PARTITION BY day", "different clustering spec"),
    ],
)
def test_clone_over_another_layout_is_refused(client: bigquery.Client, tables: str, layout: str, message: str) -> None:
    client.query_and_wait(f"CREATE TABLE {tables}.other (day DATE, id INT64, number INT64) {layout}")
    with pytest.raises(exceptions.BadRequest, match=f"Cannot replace a table with a {message}"):
        client.query_and_wait(f"CREATE OR REPLACE TABLE {tables}.other CLONE {tables}.staging")


@pytest.mark.parametrize(("target", "source"), [("staging", "staging"), ("staging", "target")])
def test_clone_back_is_refused(client: bigquery.Client, tables: str, target: str, source: str) -> None:
    with pytest.raises(exceptions.BadRequest, match="Cannot clone"):
        client.query_and_wait(f"CREATE OR REPLACE TABLE {tables}.{target} CLONE {tables}.{source}")


def test_clone_of_an_existing_name_needs_or_replace(client: bigquery.Client, tables: str) -> None:
    with pytest.raises(exceptions.Conflict, match="Already Exists: Table"):
        client.query_and_wait(f"CREATE TABLE {tables}.target CLONE {tables}.staging")
    put(client, f"{tables}.staging", 2)
    client.query_and_wait(f"CREATE TABLE IF NOT EXISTS {tables}.target CLONE {tables}.staging")
    assert numbers_by_day(client, f"{tables}.target") == {days_ago(1): {1}, TODAY: {1}}


def test_information_schema_shows_the_clone(client: bigquery.Client, tables: str) -> None:
    found = rows_of(
        client,
        f"SELECT table_name, table_type, base_table_name FROM {tables}.INFORMATION_SCHEMA.TABLES ORDER BY table_name",
    )
    assert found == [("staging", "BASE TABLE", None), ("target", "CLONE", "staging")]


def test_table_options_are_spelt_as_bigquery_spells_them(client: bigquery.Client, tables: str) -> None:
    client.query_and_wait(
        f"ALTER TABLE {tables}.target SET OPTIONS (description = 'a \"b\"', partition_expiration_days = 730, "
        "labels = [('one', '1'), ('two', '2')], require_partition_filter = TRUE)"
    )
    view = f"{tables}.INFORMATION_SCHEMA.TABLE_OPTIONS"
    found = rows_of(client, f"SELECT option_name, option_type, option_value FROM {view} WHERE table_name = 'target'")
    assert sorted(found) == [
        ("description", "STRING", '"a \\"b\\""'),
        ("labels", "ARRAY<STRUCT<STRING, STRING>>", '[STRUCT("one", "1"), STRUCT("two", "2")]'),
        ("partition_expiration_days", "FLOAT64", "730.0"),
        ("require_partition_filter", "BOOL", "true"),
    ]


def test_time_travel_reads_rows_before_a_replacement(client: bigquery.Client, tables: str, control: Control) -> None:
    """ "Query syntax", FOR SYSTEM_TIME AS OF: a constant of the last seven days, and of a table the same in a query."""
    moment = control.now()
    put(client, f"{tables}.staging", 2)
    config = bigquery.QueryJobConfig(query_parameters=[bigquery.ScalarQueryParameter("t", "TIMESTAMP", moment)])
    sql = f"SELECT DISTINCT number FROM {tables}.staging FOR SYSTEM_TIME AS OF @t"
    assert rows_of(client, sql, job_config=config) == [(1,)]
    with pytest.raises(exceptions.BadRequest, match="Cannot read before"):
        rows_of(
            client,
            f"SELECT * FROM {tables}.staging FOR SYSTEM_TIME AS OF TIMESTAMP_SUB(CURRENT_TIMESTAMP(), INTERVAL 1 DAY)",
        )
    for wrong, message in (
        ("CURRENT_DATE()", "expected a constant TIMESTAMP expression"),
        (f"(SELECT TIMESTAMP(MAX(day)) FROM {tables}.target)", "cannot be read inside a constant expression"),
        ("TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)", "Cannot read after"),
    ):
        with pytest.raises(exceptions.BadRequest, match=message):
            rows_of(client, f"SELECT number FROM {tables}.staging FOR SYSTEM_TIME AS OF {wrong}")
    with pytest.raises(exceptions.BadRequest, match="is read at several points in time"):
        rows_of(client, f"{sql} UNION ALL SELECT number FROM {tables}.staging", job_config=config)
    client.delete_table(f"{tables}.staging")
    with pytest.raises(exceptions.NotFound, match="was not found in location US"):
        rows_of(client, sql, job_config=config)


def test_reader_sees_one_version_during_thirty_swaps(client: bigquery.Client, tables: str) -> None:
    seen: list[set[int]] = []
    failures: list[Exception] = []
    finished = threading.Event()

    def read() -> None:
        try:
            while not finished.is_set():
                found = client.query_and_wait(f"SELECT day, number FROM {tables}.target")
                rows = [(row.day, row.number) for row in found]
                assert len(rows) == 4
                seen.append({number for _, number in rows})
        except Exception as error:
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(2, 32):
        put(client, f"{tables}.staging", number)
        client.query_and_wait(f"CREATE OR REPLACE TABLE {tables}.target CLONE {tables}.staging")
    finished.set()
    reader.join()
    assert failures == []
    assert all(len(numbers) == 1 for numbers in seen)
    assert len(set().union(*seen)) > 1
    assert [min(numbers) for numbers in seen] == sorted(min(numbers) for numbers in seen)


def test_table_name_may_hold_the_project(client: bigquery.Client, tables: str) -> None:
    assert rows_of(client, f"SELECT COUNT(*) FROM `{PROJECT}.{tables}.target`") == [(4,)]


def test_constraints_are_copied_by_a_clone_and_kept_by_write_truncate_data(
    client: bigquery.Client, bucket: storage.Bucket, dataset: str
) -> None:
    """ "Use primary and foreign keys", limitations; REST resource jobs, writeDisposition."""
    staging, target = f"{dataset}.staging", f"{dataset}.target"
    table = make_table(client, staging)
    table.table_constraints = bigquery.table.TableConstraints(bigquery.table.PrimaryKey(["id", "day"]), None)
    client.update_table(table, ["tableConstraints"])
    uri = upload(bucket, f"constraints/{uuid.uuid4().hex}.parquet", snapshot([TODAY], 1))

    def key(name: str) -> list[str] | None:
        constraints = client.get_table(f"{PROJECT}.{name}").table_constraints
        return constraints and constraints.primary_key.columns

    load(client, uri, staging, "WRITE_TRUNCATE_DATA")
    make_table(client, target)
    client.query_and_wait(f"CREATE OR REPLACE TABLE {target} CLONE {staging}")
    assert (key(staging), key(target)) == (["id", "day"], ["id", "day"])
    load(client, uri, staging, "WRITE_TRUNCATE")
    client.query_and_wait(f"CREATE OR REPLACE TABLE {target} CLONE {staging}")
    assert (key(staging), key(target)) == (None, None)
    table.table_constraints = bigquery.table.TableConstraints(bigquery.table.PrimaryKey(["absent"]), None)
    table._properties.pop("etag", None)
    with pytest.raises(exceptions.BadRequest, match="primary key"):
        client.update_table(table, ["tableConstraints"])
