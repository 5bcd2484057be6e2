"""Computes the rows of `region-….INFORMATION_SCHEMA.JOBS` from the job store.

Most columns of BigQuery's view are absent, so that a query that names one fails. Source: "JOBS view".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import NotFound
from bigquery_standin.clock import DAY_US, Clock, floor_to_millisecond, to_datetime
from bigquery_standin.jobs.dml_statement import dml_statement
from bigquery_standin.jobs.job_store import JobRecord, JobStore
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.table_names import REGION_PREFIX
from bigquery_standin.sql.type_parser import field_of_type
from bigquery_standin.storage.arrow_schema import arrow_schema
from bigquery_standin.storage.model import DatasetId

KEPT_DAYS = 180
_TABLE = "STRUCT<project_id STRING, dataset_id STRING, table_id STRING>"
_COLUMNS = {
    "creation_time": "TIMESTAMP",
    "destination_table": _TABLE,
    "end_time": "TIMESTAMP",
    "job_id": "STRING",
    "job_type": "STRING",
    "parent_job_id": "STRING",
    "project_id": "STRING",
    "start_time": "TIMESTAMP",
    "state": "STRING",
    "statement_type": "STRING",
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
    destination = record.configuration[record.kind].get("destinationTable")
    times = {"creation_time": record.created_us, "start_time": record.started_us, "end_time": record.ended_us}
    return {
        **{name: None if us is None else to_datetime(floor_to_millisecond(us)) for name, us in times.items()},
        "destination_table": _table(destination) or _target_of_dml(record),
        "job_id": record.job_id,
        "job_type": record.kind.upper(),
        "parent_job_id": record.parent_job_id,
        "project_id": record.project,
        "state": record.state,
        "statement_type": record.statistics.get("query", {}).get("statementType"),
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
