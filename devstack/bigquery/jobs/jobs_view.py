"""Computes the rows of `region-….INFORMATION_SCHEMA.JOBS` from the job store.

Columns of BigQuery's view for which the stand-in has no value are absent, so that a query that names one fails instead
of reading NULL. Source: "JOBS view".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from devstack.bigquery.bigquery_errors import NotFound
from devstack.bigquery.clock import DAY_US, Clock, floor_to_millisecond, to_datetime
from devstack.bigquery.jobs.dml_statement import dml_statement
from devstack.bigquery.jobs.job_store import JobRecord, JobStore
from devstack.bigquery.sql.field_types import TableField
from devstack.bigquery.sql.table_names import REGION_PREFIX
from devstack.bigquery.sql.type_parser import field_of_type
from devstack.bigquery.storage.arrow_schema import arrow_schema
from devstack.bigquery.storage.model import DatasetId

KEPT_DAYS = 180
_TABLE = "STRUCT<project_id STRING, dataset_id STRING, table_id STRING>"
_COLUMNS = {
    "cache_hit": "BOOL",
    "creation_time": "TIMESTAMP",
    "destination_table": _TABLE,
    "dml_statistics": "STRUCT<inserted_row_count INT64, deleted_row_count INT64, updated_row_count INT64>",
    "end_time": "TIMESTAMP",
    "error_result": "STRUCT<reason STRING, location STRING, debug_info STRING, message STRING>",
    "job_id": "STRING",
    "job_type": "STRING",
    "labels": "ARRAY<STRUCT<key STRING, value STRING>>",
    "parent_job_id": "STRING",
    "priority": "STRING",
    "project_id": "STRING",
    "query": "STRING",
    "referenced_tables": f"ARRAY<{_TABLE}>",
    "reservation_id": "STRING",  # NULL: on demand
    "start_time": "TIMESTAMP",
    "state": "STRING",
    "statement_type": "STRING",
    "total_bytes_billed": "INT64",
    "total_bytes_processed": "INT64",
    "total_slot_ms": "INT64",
    "user_email": "STRING",
}


def jobs_columns() -> tuple[TableField, ...]:
    return tuple(replace(field_of_type(kind), name=name) for name, kind in _COLUMNS.items())


def jobs_rows(store: JobStore, clock: Clock, dataset: DatasetId, location: str) -> pa.Table:
    """The project's jobs of the last 180 days in the location. `dataset`: the project, and `region-…` as its dataset.

    Raises NotFound if the region is not the query's own location.
    """
    if dataset.dataset.lower() != f"{REGION_PREFIX}{location.lower()}":
        raise NotFound(f"Not found: Dataset {dataset} was not found in location {location}")
    oldest_us = clock.now_us() - KEPT_DAYS * DAY_US
    records = (record for record in store.all(dataset.project) if record.location == location)
    rows = [_row(record) for record in records if record.created_us >= oldest_us]
    return pa.Table.from_pylist(rows, schema=arrow_schema(jobs_columns()))


def _row(record: JobRecord) -> dict[str, Any]:
    configuration, statistics = record.configuration[record.kind], record.statistics
    query: Mapping[str, Any] = statistics.get("query", {})
    is_script = query.get("statementType") == "SCRIPT"
    times = {
        "creation_time": record.created_us,
        "start_time": record.started_us,
        "end_time": record.ended_us,
    }
    return {
        **{name: None if us is None else to_datetime(floor_to_millisecond(us)) for name, us in times.items()},
        "cache_hit": None if is_script else query.get("cacheHit"),
        "destination_table": _table(configuration.get("destinationTable")) or _target_of_dml(record),
        "dml_statistics": _dml_statistics(query.get("dmlStats")),
        "error_result": None if record.error is None else {"debug_info": "", **record.error},
        "job_id": record.job_id,
        "job_type": record.kind.upper(),
        "labels": [{"key": key, "value": value} for key, value in (record.configuration.get("labels") or {}).items()],
        "parent_job_id": record.parent_job_id,
        "priority": configuration.get("priority", "INTERACTIVE") if record.kind == "query" else None,
        "project_id": record.project,
        "query": configuration.get("query"),
        "referenced_tables": [_table(table) for table in query.get("referencedTables", ())],
        "state": record.state,
        "statement_type": query.get("statementType"),
        "total_bytes_billed": _number(query.get("totalBytesBilled")),
        "total_bytes_processed": _number(statistics.get("totalBytesProcessed")),
        "total_slot_ms": _number(statistics.get("totalSlotMs")),
        "user_email": record.user,
    }


def _table(table: Mapping[str, str] | None) -> dict[str, str] | None:
    if not table:  # clients send null or {} for no table
        return None
    return {"project_id": table["projectId"], "dataset_id": table["datasetId"], "table_id": table["tableId"]}


def _target_of_dml(record: JobRecord) -> dict[str, str] | None:
    found = dml_statement(record)
    if found is None:
        return None
    _, table = found
    return _table(table.to_api())


def _dml_statistics(counts: Mapping[str, str] | None) -> dict[str, int] | None:
    if counts is None:
        return None
    return {f"{kind}_row_count": int(counts.get(f"{kind}RowCount", 0)) for kind in ("inserted", "deleted", "updated")}


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
