"""Versions, time travel, expiration, clones, quotas and schemas of tables, and their files on disk."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigquery import LoadJobConfig

from tests.bigquery_standin.warehouse import PROJECT, Warehouse

TAG = "projects/p/locations/us/taxonomies/1/policyTags/2"
TOO_EARLY = "Cannot read before"


def put(warehouse: Warehouse, number: int, *ages: int | None, table: str = "d.t") -> None:
    """Replace the rows by a load of three rows for each day, all with the same number. `ages`: days ago."""
    today = warehouse.now().date()
    days = [None if age is None else f"{today - timedelta(days=age)}" for age in ages or (0,)]
    rows = [{"day": day, "n": number} for day in days for _ in range(3)]
    config = LoadJobConfig(write_disposition="WRITE_TRUNCATE_DATA")
    warehouse.client.load_table_from_json(rows, table, job_config=config).result(retry=None)


def make(warehouse: Warehouse, table: str = "d.t", options: str = "") -> None:
    warehouse.job(f"CREATE OR REPLACE TABLE {table} (day DATE, n INT64) PARTITION BY day {options}")


def numbers(warehouse: Warehouse, source: str = "d.t") -> set[int]:
    return {n for (n,) in warehouse.rows(f"SELECT n FROM {source}")}


def at(moment: Any) -> str:
    return f"d.t FOR SYSTEM_TIME AS OF TIMESTAMP '{moment}'"


def test_a_table_survives_a_restart_with_its_days_and_counts_bytes_as_bigquery_does(warehouse: Warehouse) -> None:
    make(warehouse, options="OPTIONS (partition_expiration_days = 4000000, description = 'x')")
    put(warehouse, 7, 1, None, (warehouse.now().date() - date(999, 10, 1)).days)
    warehouse.job("CREATE ROW ACCESS POLICY p ON d.t GRANT TO ('allUsers') FILTER USING (TRUE)")
    before = warehouse.client.get_table("d.t").to_api_repr()
    warehouse.restart()
    found = warehouse.client.get_table("d.t")
    assert found.to_api_repr() == before
    assert (found.num_rows, found.num_bytes) == (9, 9 * 8 + 6 * 8)  # NULL is free
    names = warehouse.rows("SELECT partition_id FROM d.INFORMATION_SCHEMA.PARTITIONS ORDER BY partition_id")
    assert {"__NULL__", "__UNPARTITIONED__"} <= {name for (name,) in names}  # the year 999 has no partition of its own


def test_time_travel_reads_replaced_rows_for_seven_days_and_then_a_restart_frees_their_files(
    warehouse: Warehouse,
) -> None:
    make(warehouse)
    put(warehouse, 1)
    first = warehouse.now()
    put(warehouse, 2)
    assert numbers(warehouse, at(first)) == {1}
    warehouse.advance(days=6)
    assert numbers(warehouse, at(first)) == {1}
    warehouse.advance(days=2)
    assert TOO_EARLY in warehouse.refusal(f"SELECT n FROM {at(first)}")[1]
    assert (warehouse.files(), numbers(warehouse)) == (1, {2})


def test_a_dropped_table_is_not_read_in_the_past_and_forgotten_after_time_travel(warehouse: Warehouse) -> None:
    make(warehouse)
    put(warehouse, 1)
    first = warehouse.now()
    warehouse.job("DROP TABLE d.t")
    assert warehouse.refusal(f"SELECT n FROM {at(first)}")[0] == "notFound"
    make(warehouse)
    assert TOO_EARLY in warehouse.refusal(f"SELECT n FROM {at(first)}")[1]
    assert warehouse.files() == 1
    warehouse.job("DROP TABLE d.t")
    warehouse.advance(days=8)
    assert warehouse.files() == 0


def test_expired_days_are_gone_at_once(warehouse: Warehouse) -> None:
    make(warehouse, options="OPTIONS (partition_expiration_days = 10)")
    put(warehouse, 1, 11, 9, 0, None)
    days = "SELECT COUNT(DISTINCT IFNULL(day, DATE '1970-01-01')) FROM d.t"
    assert warehouse.rows(days) == [(3,)]
    warehouse.advance(days=2)
    assert warehouse.rows(days) == [(2,)]
    warehouse.advance(days=20)
    assert warehouse.rows(days) == [(1,)]


def test_hours_expire_one_after_another_and_are_pruned_by_their_date(warehouse: Warehouse) -> None:
    """Pages "Manage partitioned tables" and "Query partitioned tables"."""
    warehouse.job(
        "CREATE TABLE d.t (moment TIMESTAMP, n INT64) PARTITION BY TIMESTAMP_TRUNC(moment, HOUR) "
        "OPTIONS (partition_expiration_days = 1)"
    )
    now = warehouse.now().replace(minute=30)
    moments = [now - timedelta(hours=hours) for hours in (25, 23, 22, 0)]
    rows = [{"moment": f"{moment:%Y-%m-%d %H:%M:%S}+00", "n": n} for n, moment in enumerate(moments)]
    warehouse.client.load_table_from_json(rows, "d.t").result(retry=None)
    assert numbers(warehouse) == {1, 2, 3}
    for day in {moment.date() for moment in moments}:
        of_day = sum(moment.date() == day for moment in moments[1:])
        job = warehouse.job(f"SELECT n FROM d.t WHERE DATE(moment, 'UTC') = DATE '{day}'")
        assert (job.result().total_rows, job.total_bytes_processed) == (of_day, of_day * 16)
    warehouse.advance(hours=1)
    assert numbers(warehouse) == {2, 3}
    config = LoadJobConfig(schema=warehouse.client.get_table("d.t").schema)
    with pytest.raises(GoogleAPICallError, match="is no partition"):
        warehouse.client.load_table_from_json(rows, "d.t$20260101", job_config=config).result(retry=None)


def test_an_expired_table_that_was_made_anew_is_not_read_in_the_past(warehouse: Warehouse) -> None:
    expiry = "TIMESTAMP_ADD(CURRENT_TIMESTAMP(), INTERVAL 1 HOUR)"
    make(warehouse, options=f"OPTIONS (expiration_timestamp = {expiry})")
    expired = warehouse.now()
    warehouse.advance(hours=2)
    assert warehouse.refusal("SELECT n FROM d.t")[0] == "notFound"
    make(warehouse)
    assert TOO_EARLY in warehouse.refusal(f"SELECT n FROM {at(expired)}")[1]


def test_the_clock_survives_a_restart_and_never_goes_back(warehouse: Warehouse) -> None:
    warehouse.advance(hours=3)
    now = warehouse.now()
    warehouse.restart()
    assert warehouse.now() >= now
    for body in ({"advance_seconds": -1}, {"advance_seconds": "1"}, {}):
        assert warehouse.http.post("/_standin/clock", json=body).status_code == 400


def test_a_table_without_partitions_takes_five_updates_in_10_seconds(tmp_path: Path) -> None:
    """ "Quotas", standard tables."""
    warehouse = Warehouse(tmp_path, updates_per_10_s=5)
    warehouse.client.create_dataset("d")
    warehouse.job("CREATE TABLE d.t (day DATE, n INT64)")
    make(warehouse, "d.by_day")
    for number in range(4):
        put(warehouse, number)
    for number in range(7):
        put(warehouse, number, table="d.by_day")
    with pytest.raises(GoogleAPICallError) as refused:
        put(warehouse, 4)
    assert (refused.value.errors[0]["reason"], numbers(warehouse)) == ("rateLimitExceeded", {3})
    warehouse.advance(seconds=11)
    put(warehouse, 4)


LONG = "x" * 301
INNER = {"name": "i", "type": "RECORD", "fields": [{"name": "a", "type": "STRING"}, {"name": "A", "type": "STRING"}]}


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        *(({"name": name, "type": "INTEGER"}, "invalid") for name in ("_TABLE_x", "_file_name", "_PartitionTime")),
        *(({"name": name, "type": "INTEGER"}, "invalid") for name in ("__root__", "_CHANGE_TYPE", LONG, "N", None)),
        (INNER, "invalid"),
        ({"name": "x", "type": "BIGNUMERIC"}, "notImplemented"),
        ({"name": "x", "type": "INTEGER", "defaultValueExpression": "1"}, "notImplemented"),
        ({"name": "x", "type": "INTEGER", "policyTags": {"names": ["secret"]}}, "invalid"),
        ({"name": "x", "type": "INTEGER", "policyTags": {"names": [TAG, TAG]}}, "invalid"),
        ({"name": "x", "type": "INTEGER", "mode": "MAYBE"}, "invalid"),
        ({"name": "x", "type": "RECORD"}, "invalid"),
        ({"name": "x", "type": "NOTHING"}, "invalid"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_column_that_bigquery_has_not_is_refused(shared: Warehouse, field: dict[str, Any], reason: str) -> None:
    """ "Specifying a schema", column names; REST resource tables."""
    fields = [{"name": "n", "type": "INTEGER"}, {key: value for key, value in field.items() if value is not None}]
    body = {"tableReference": {"projectId": PROJECT, "datasetId": "d", "tableId": "made"}, "schema": {"fields": fields}}
    answer = shared.http.post(f"/bigquery/v2/projects/{PROJECT}/datasets/d/tables", json=body)
    assert answer.json()["error"]["errors"][0]["reason"] == reason


@pytest.mark.parametrize("labels", [{"Upper": "b"}, {"a": "B"}, {f"k{number}": "" for number in range(65)}], ids=len)
def test_labels_in_a_request_follow_the_rules_of_those_in_ddl(shared: Warehouse, labels: dict[str, str]) -> None:
    """ "Creating and updating labels", requirements."""
    table = {"projectId": PROJECT, "datasetId": "d", "tableId": "labelled"}
    dataset = {"projectId": PROJECT, "datasetId": "labelled"}
    for path, reference in (("/d/tables", {"tableReference": table}), ("", {"datasetReference": dataset})):
        url = f"/bigquery/v2/projects/{PROJECT}/datasets{path}"
        answer = shared.http.post(url, json={**reference, "labels": labels}).json()
        assert answer["error"]["errors"][0]["reason"] == "invalid"


def test_a_view_is_its_query_at_the_time_of_the_select(warehouse: Warehouse) -> None:
    warehouse.job("CREATE TABLE d.t (feed STRING, n INT64)")
    newest = "SELECT feed, n FROM d.t WHERE TRUE QUALIFY ROW_NUMBER() OVER (PARTITION BY feed ORDER BY n DESC) = 1"
    assert warehouse.job(f"CREATE VIEW IF NOT EXISTS d.v AS {newest};").statement_type == "CREATE_VIEW"
    warehouse.job("CREATE VIEW IF NOT EXISTS d.v AS SELECT 1 AS other")
    warehouse.job("CREATE VIEW d.w AS SELECT SUM(n) AS total FROM d.v")
    warehouse.job("INSERT d.t VALUES ('a', 1), ('a', 2), ('b', 5)")
    warehouse.restart()
    assert warehouse.rows("SELECT feed, v.n FROM d.v WHERE n > 1 ORDER BY feed") == [("a", 2), ("b", 5)]
    assert warehouse.rows("SELECT x.total FROM `d.w` AS x CROSS JOIN d.v AS y") == [(7,), (7,)]
    found = warehouse.client.get_table("d.v")
    assert (found.table_type, found.view_query, [f.name for f in found.schema]) == ("VIEW", newest, ["feed", "n"])
    assert {t.table_id: t.table_type for t in warehouse.client.list_tables("d")} == {
        "t": "TABLE",
        "v": "VIEW",
        "w": "VIEW",
    }
    assert warehouse.refusal("CREATE OR REPLACE TABLE d.v (n INT64)")[0] == "invalid"
    assert warehouse.refusal("CREATE VIEW d.v AS SELECT 1 AS a")[0] == "duplicate"
    assert warehouse.refusal("INSERT d.v VALUES ('a', 1)")[0] == "notImplemented"
    warehouse.client.delete_table("d.v")
    assert warehouse.refusal("SELECT * FROM d.v")[0] == "notFound"
