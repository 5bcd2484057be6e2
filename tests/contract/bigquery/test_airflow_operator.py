"""The Google provider's operators and sensors, in one flow as in its examples, with an anonymous connection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from google.cloud import bigquery, storage

from testkit.local_servers import REPOSITORY
from testkit.server_clients import PROJECT

FLOW = """
import json, sys, types
from airflow.providers.google.cloud.operators import bigquery as operators
from airflow.providers.google.cloud.sensors import bigquery as sensors
from airflow.providers.google.cloud.transfers.bigquery_to_bigquery import BigQueryToBigQueryOperator
from airflow.providers.google.cloud.transfers.bigquery_to_gcs import BigQueryToGCSOperator
from airflow.providers.google.cloud.transfers.gcs_to_bigquery import GCSToBigQueryOperator

PROJECT, BUCKET = sys.argv[1:]
TABLE = f"{PROJECT}.by_airflow.visits"
task = types.SimpleNamespace(xcom_push=lambda *_, **__: None, stats_tags={}, try_number=1)
context = {"ti": task, "task_instance": task}
columns = [{"name": "day", "type": "DATE"}, {"name": "id", "type": "INTEGER"}, {"name": "note", "type": "STRING"}]
dataset = {"project_id": PROJECT, "dataset_id": "by_airflow"}
table = {**dataset, "table_id": "visits"}
job = {"project_id": PROJECT, "location": "US"}
rows = f"INSERT INTO `{TABLE}` VALUES (DATE '2026-01-30', 1, 'a'), (DATE '2026-01-31', 2, NULL)"
files = "by_airflow/*.parquet"

def query(sql, **options):
    configuration = {"query": {"useLegacySql": False, "query": sql}}
    return {**job, "deferrable": False, "durable": False, "configuration": configuration, **options}

flow = {
    "dataset": (operators.BigQueryCreateEmptyDatasetOperator, {**dataset, "location": "US"}),
    "get dataset": (operators.BigQueryGetDatasetOperator, dataset),
    "table": (operators.BigQueryCreateTableOperator, {**table, "table_resource": {
        "schema": {"fields": columns}, "timePartitioning": {"type": "DAY", "field": "day"}}}),
    "insert": (operators.BigQueryInsertJobOperator, query(rows)),
    "script": (operators.BigQueryInsertJobOperator,
        query("ASSERT TRUE AS 'never'; CREATE TABLE by_airflow.made AS SELECT 1 AS n;", job_id="scripted",
        force_rerun=False)),
    "failed assertion": (operators.BigQueryInsertJobOperator, query("ASSERT FALSE AS 'target moved on'; SELECT 1;")),
    "table sensor": (sensors.BigQueryTableExistenceSensor, table),
    "partition sensor": (sensors.BigQueryTablePartitionExistenceSensor, {**table, "partition_id": "20260131"}),
    "get data": (operators.BigQueryGetDataOperator, {"dataset_id": "by_airflow", "table_id": "visits",
        "table_project_id": PROJECT, "job_project_id": PROJECT, "use_legacy_sql": False, "location": "US"}),
    "update table": (operators.BigQueryUpdateTableOperator, {**table, "fields": ["description"],
        "table_resource": {"description": "made by Airflow"}}),
    "update schema": (operators.BigQueryUpdateTableSchemaOperator, {**table,
        "schema_fields_updates": [{"name": "note", "description": "a note"}]}),
    "extract": (BigQueryToGCSOperator, {**job, "source_project_dataset_table": TABLE, "export_format": "PARQUET",
        "destination_cloud_storage_uris": [f"gs://{BUCKET}/{files}"]}),
    "load": (GCSToBigQueryOperator, {**job, "bucket": BUCKET, "source_objects": [files], "source_format": "PARQUET",
        "destination_project_dataset_table": f"{PROJECT}.by_airflow.loaded", "autodetect": False,
        "schema_fields": columns, "write_disposition": "WRITE_TRUNCATE"}),
    "copy": (BigQueryToBigQueryOperator, {**job, "source_project_dataset_tables": TABLE,
        "destination_project_dataset_table": f"{PROJECT}.by_airflow.copied"}),
    "delete table": (operators.BigQueryDeleteTableOperator, {"deletion_dataset_table": TABLE}),
}
steps = {}
for name, (kind, arguments) in flow.items():
    try:
        operator = kind(task_id="step", **arguments)
        found = operator.poke(context) if hasattr(operator, "poke") else operator.execute(context)
        steps[name] = "waits" if found is False else "done"
    except Exception as error:
        steps[name] = f"{type(error).__name__}: {error}"
print("steps", json.dumps(steps))
"""
FAILED = {
    "failed assertion": "target moved on",
    "copy": "does not carry out [configuration.copy",
    "partition sensor": "does not carry out [$__PARTITIONS_SUMMARY__",
}


def test_operators_and_sensors_of_the_provider(clients: tuple[storage.Client, bigquery.Client], tmp_path: Path) -> None:
    """In a process of their own, because Airflow reads its environment when it is imported."""
    objects, client = clients
    connection = {"conn_type": "google_cloud_platform", "extra": {"project": PROJECT, "is_anonymous": True}}
    environment = {
        **os.environ,
        "AIRFLOW_HOME": str(tmp_path),
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT": json.dumps(connection),
        "BIGQUERY_EMULATOR_HOST": client._connection.API_BASE_URL,
        "STORAGE_EMULATOR_HOST": objects._connection.API_BASE_URL,
    }
    command = [sys.executable, "-c", FLOW, PROJECT, "landing"]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("steps ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    steps = json.loads(lines[-1].removeprefix("steps "))
    failed = {name: message for name, message in steps.items() if message != "done"}
    assert failed.keys() == FAILED.keys(), failed
    assert all(text in failed[name] for name, text in FAILED.items()), failed
    assert client.get_table("by_airflow.loaded").num_rows == 2
    assert {table.table_id for table in client.list_tables("by_airflow")} == {"loaded", "made"}
