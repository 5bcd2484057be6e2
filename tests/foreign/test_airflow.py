"""The Google provider's operators and sensors, in one flow as in its examples, with an anonymous connection."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from testkit.foreign_programs import PROJECT, Servers, run_steps

pytestmark = pytest.mark.exhaustive

FLOW = """
import json, sys, types
from airflow.providers.google.cloud.operators import bigquery as operators
from airflow.providers.google.cloud.sensors import bigquery as sensors
from airflow.providers.google.cloud.transfers.bigquery_to_bigquery import BigQueryToBigQueryOperator
from airflow.providers.google.cloud.transfers.bigquery_to_gcs import BigQueryToGCSOperator
from airflow.providers.google.cloud.transfers.gcs_to_bigquery import GCSToBigQueryOperator

PROJECT = sys.argv[1]
TABLE = f"{PROJECT}.by_airflow.visits"
task = types.SimpleNamespace(xcom_push=lambda *_, **__: None, stats_tags={}, try_number=1)
context = {"ti": task, "task_instance": task}
columns = [{"name": "day", "type": "DATE"}, {"name": "id", "type": "INTEGER"}, {"name": "note", "type": "STRING"}]
dataset = {"project_id": PROJECT, "dataset_id": "by_airflow"}
table = {**dataset, "table_id": "visits"}
job = {"project_id": PROJECT, "location": "US"}
rows = f"INSERT INTO `{TABLE}` VALUES (DATE '2026-01-30', 1, 'a'), (DATE '2026-01-31', 2, NULL)"
files = "by_airflow/*.parquet"
flow = [
    (operators.BigQueryCreateEmptyDatasetOperator, {**dataset, "location": "US"}),
    (operators.BigQueryGetDatasetOperator, dataset),
    (operators.BigQueryCreateTableOperator, {**table, "table_resource": {
        "schema": {"fields": columns}, "timePartitioning": {"type": "DAY", "field": "day"}}}),
    (operators.BigQueryInsertJobOperator, {**job, "deferrable": False, "durable": False,
        "configuration": {"query": {"useLegacySql": False, "query": rows}}}),
    (sensors.BigQueryTableExistenceSensor, table),
    (sensors.BigQueryTablePartitionExistenceSensor, {**table, "partition_id": "20260131"}),
    (operators.BigQueryGetDataOperator, {"dataset_id": "by_airflow", "table_id": "visits",
        "table_project_id": PROJECT, "job_project_id": PROJECT, "use_legacy_sql": False, "location": "US"}),
    (operators.BigQueryUpdateTableOperator, {**table, "fields": ["description"],
        "table_resource": {"description": "made by Airflow"}}),
    (operators.BigQueryUpdateTableSchemaOperator, {**table,
        "schema_fields_updates": [{"name": "note", "description": "a note"}]}),
    (BigQueryToGCSOperator, {**job, "source_project_dataset_table": TABLE, "export_format": "PARQUET",
        "destination_cloud_storage_uris": [f"gs://lake/{files}"]}),
    (GCSToBigQueryOperator, {**job, "bucket": "lake", "source_objects": [files], "source_format": "PARQUET",
        "destination_project_dataset_table": f"{PROJECT}.by_airflow.loaded", "autodetect": False,
        "schema_fields": columns, "write_disposition": "WRITE_TRUNCATE"}),
    (BigQueryToBigQueryOperator, {**job, "source_project_dataset_tables": TABLE,
        "destination_project_dataset_table": f"{PROJECT}.by_airflow.copied"}),
    (operators.BigQueryDeleteTableOperator, {"deletion_dataset_table": TABLE}),
    (operators.BigQueryDeleteDatasetOperator, {**dataset, "delete_contents": True}),
]
steps = {}
for kind, arguments in flow:
    try:
        operator = kind(task_id="step", **arguments)
        found = operator.poke(context) if hasattr(operator, "poke") else operator.execute(context)
        steps[kind.__name__] = "waits" if found is False else "done"
    except Exception as error:
        steps[kind.__name__] = f"{type(error).__name__}: {error}"
print("steps", json.dumps(steps))
"""
REFUSED = {
    "BigQueryToBigQueryOperator": "configuration.copy",
    "BigQueryTablePartitionExistenceSensor": "$__PARTITIONS_SUMMARY__",
}


def test_operators_and_sensors_of_the_provider(servers: Servers, tmp_path: Path) -> None:
    connection = {"conn_type": "google_cloud_platform", "extra": {"project": PROJECT, "is_anonymous": True}}
    steps = run_steps(
        servers,
        tmp_path,
        Path(sys.executable),
        FLOW,
        PROJECT,
        AIRFLOW_HOME=str(tmp_path),
        AIRFLOW__CORE__UNIT_TEST_MODE="False",
        AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT=json.dumps(connection),
    )
    failed = {name: message for name, message in steps.items() if message != "done"}
    assert failed.keys() == REFUSED.keys(), failed
    assert all(f"does not carry out [{construct}" in failed[name] for name, construct in REFUSED.items()), failed
    assert len(steps) == 14
