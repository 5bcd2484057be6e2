"""Computes the rows of INFORMATION_SCHEMA views: JOBS from the job store, those of a dataset from its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import NotFound
from bigquery_standin.clock import DAY_US, Clock, floor_to_millisecond, to_datetime
from bigquery_standin.jobs.job_store import JobRecord, JobStore
from bigquery_standin.jobs.script_state import dml_statement
from bigquery_standin.sql.ddl_options import TABLE_OPTIONS
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.type_parser import REGION_PREFIX, field_of_type
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import (
    NULL_PARTITION,
    UNPARTITIONED,
    DatasetId,
    TableId,
    TableVersion,
)
from bigquery_standin.storage.segment_store import arrow_schema

Row = dict[str, Any]
_TABLE_COLUMNS = "table_catalog STRING, table_schema STRING, table_name STRING"

_COLUMNS = {
    "TABLES": _TABLE_COLUMNS + ", table_type STRING, creation_time TIMESTAMP, upsert_stream_apply_watermark TIMESTAMP",
    "PARTITIONS": _TABLE_COLUMNS + ", partition_id STRING, total_rows INT64, total_logical_bytes INT64, "
    "last_modified_time TIMESTAMP, storage_tier STRING",
    "TABLE_OPTIONS": _TABLE_COLUMNS + ", option_name STRING, option_type STRING, option_value STRING",
}


def view_rows(catalog: Catalog, dataset: DatasetId, view: str) -> pa.Table:
    """The rows of a view. Raises NotFound if there is no such dataset or view."""
    if view not in _COLUMNS:
        raise NotFound(f"Not found: INFORMATION_SCHEMA.{view}; the stand-in has [{', '.join(_COLUMNS)}].")
    columns = [TableField(name, kind) for name, kind in (item.split(" ") for item in _COLUMNS[view].split(", "))]
    catalog.datasets.get(dataset)
    rows = [
        {"table_catalog": table.project, "table_schema": table.dataset, "table_name": table.table, **row}
        for table, version in catalog.list_tables(dataset)
        for row in _ROWS[view](table, version)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(columns))


def _table_rows(table: TableId, version: TableVersion) -> Iterator[Row]:
    watermark_us = version.change_log.watermark_us if version.change_log else None
    yield {
        "table_type": "CLONE" if version.clone else "VIEW" if version.settings.view else "BASE TABLE",
        "creation_time": to_datetime(version.table_created_us),
        "upsert_stream_apply_watermark": to_datetime(floor_to_millisecond(watermark_us)) if watermark_us else None,
    }


def _partition_rows(table: TableId, version: TableVersion) -> Iterator[Row]:
    """A row for each partition; an unpartitioned table has one row, with a NULL partition_id.

    __UNPARTITIONED__ has the rows of the streaming buffer and of days that have no partition. BigQuery has a row for
    each partition and storage tier; the stand-in has only the tier ACTIVE. Source: "PARTITIONS view".
    """
    partitions: list[tuple[str | None, int, int, int]] = [(None, version.rows, version.bytes, version.modified_us)]
    if version.settings.partition_column is not None:
        partitions = []
        unpartitioned = [(rows.segment.rows, rows.segment.bytes, rows.received_us) for rows in version.buffer]
        for key, partition in sorted(version.partitions.items()):
            if _has_partition(key):
                partitions.append((key, partition.rows, partition.bytes, partition.modified_us))
            else:
                unpartitioned.append((partition.rows, partition.bytes, partition.modified_us))
        if unpartitioned:
            row_counts, sizes, times_us = zip(*unpartitioned, strict=True)
            partitions.append((UNPARTITIONED, sum(row_counts), sum(sizes), max(times_us)))
    for partition_id, rows, size, modified_us in partitions:
        yield {
            "partition_id": partition_id,
            "total_rows": rows,
            "total_logical_bytes": size,
            "last_modified_time": to_datetime(modified_us),
            "storage_tier": "ACTIVE",
        }


def _has_partition(key: str) -> bool:
    """Whether rows with this partition key have a partition of their own: those of NULL and of days from 1960 to 2159.

    Rows of other days are in __UNPARTITIONED__. Source: "Introduction to partitioned tables".
    """
    return key == NULL_PARTITION or 1960 <= int(key[:4]) <= 2159


def _option_rows(table: TableId, version: TableVersion) -> Iterator[Row]:
    """A row for each option that is set. Values are SQL text as BigQuery prints it."""
    for name, option in TABLE_OPTIONS.items():
        value = getattr(version.settings, option.setting)
        if value != option.unset:
            yield {"option_name": name, "option_type": option.kind, "option_value": option.printed(value)}


_ROWS: dict[str, Callable[[TableId, TableVersion], Iterator[Row]]] = {
    "TABLES": _table_rows,
    "PARTITIONS": _partition_rows,
    "TABLE_OPTIONS": _option_rows,
}


KEPT_DAYS = 180
_TABLE_TYPE = "STRUCT<project_id STRING, dataset_id STRING, table_id STRING>"
_JOBS_COLUMNS = {
    "creation_time": "TIMESTAMP",
    "destination_table": _TABLE_TYPE,
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


def jobs_rows(store: JobStore, clock: Clock, dataset: DatasetId, location: str) -> pa.Table:
    """The rows of JOBS: the project's jobs of the last 180 days in the location.

    Most columns of BigQuery's view are absent, so that a query that names one fails. `dataset`: the project, and
    `region-…` as its dataset.

    Raises NotFound if the region is not the query's own location.
    """
    if dataset.dataset.lower() != f"{REGION_PREFIX}{location.lower()}":
        raise NotFound(f"Not found: Dataset {dataset} was not found in location {location}")
    oldest_us = clock.now_us() - KEPT_DAYS * DAY_US
    records = (record for record in store.all(dataset.project) if record.location == location)
    rows = [_job_row(record) for record in records if record.created_us >= oldest_us]
    columns = [replace(field_of_type(kind), name=name) for name, kind in _JOBS_COLUMNS.items()]
    return pa.Table.from_pylist(rows, schema=arrow_schema(columns))


def _job_row(record: JobRecord) -> dict[str, Any]:
    destination = record.configuration[record.kind].get("destinationTable")
    times = {"creation_time": record.created_us, "start_time": record.started_us, "end_time": record.ended_us}
    return {
        **{name: None if us is None else to_datetime(floor_to_millisecond(us)) for name, us in times.items()},
        "destination_table": _table_struct(destination) or _target_of_dml(record),
        "job_id": record.job_id,
        "job_type": record.kind.upper(),
        "parent_job_id": record.parent_job_id,
        "project_id": record.project,
        "state": record.state,
        "statement_type": record.statistics.get("query", {}).get("statementType"),
        "user_email": record.user,
    }


def _table_struct(table: Mapping[str, str] | None) -> dict[str, str] | None:
    if not table:  # clients send null or {} for no table
        return None
    return {"project_id": table["projectId"], "dataset_id": table["datasetId"], "table_id": table["tableId"]}


def _target_of_dml(record: JobRecord) -> dict[str, str] | None:
    found = dml_statement(record)
    if found is None:
        return None
    _, table = found
    return _table_struct(table.to_api())
