"""Computes the rows of INFORMATION_SCHEMA views: JOBS from the job store, those of a dataset from its tables.

Columns that nobody reads are absent, so that a query which names one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import NotFound
from bigquery_standin.clock import DAY_US, Clock, floor_to_millisecond, to_datetime
from bigquery_standin.jobs.job_store import JobRecord, JobStore
from bigquery_standin.jobs.script_state import dml_statement
from bigquery_standin.sql.ddl_options import TABLE_OPTIONS
from bigquery_standin.sql.type_parser import REGION_PREFIX, field_of_type
from bigquery_standin.storage.catalog import Catalog
from bigquery_standin.storage.model import (
    NULL_PARTITION,
    UNPARTITIONED,
    DatasetId,
    TableVersion,
)
from bigquery_standin.storage.segment_store import arrow_schema

Row = dict[str, Any]
_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "TABLES": {"table_name": "STRING", "table_type": "STRING", "upsert_stream_apply_watermark": "TIMESTAMP"},
    "PARTITIONS": {
        "table_name": "STRING",
        "partition_id": "STRING",
        "total_rows": "INT64",
        "last_modified_time": "TIMESTAMP",
    },
    "TABLE_OPTIONS": {"table_name": "STRING", "option_name": "STRING", "option_value": "STRING"},
    "JOBS": {
        "creation_time": "TIMESTAMP",
        "destination_table": "STRUCT<project_id STRING, dataset_id STRING, table_id STRING>",
        "job_id": "STRING",
        "state": "STRING",
        "statement_type": "STRING",
        "user_email": "STRING",
    },
}
KEPT_DAYS = 180  # of JOBS


def view_rows(catalog: Catalog, dataset: DatasetId, view: str) -> pa.Table:
    """The rows of a view of a dataset. Raises NotFound if there is no such dataset or view."""
    if view not in _ROWS:
        raise NotFound(f"Not found: INFORMATION_SCHEMA.{view}; the stand-in has [{', '.join(_COLUMNS)}].")
    catalog.datasets.get(dataset)
    tables = catalog.list_tables(dataset)
    return _as_table(view, ({"table_name": table.table, **row} for table, v in tables for row in _ROWS[view](v)))


def jobs_rows(store: JobStore, clock: Clock, dataset: DatasetId, location: str) -> pa.Table:
    """The rows of JOBS: the project's jobs of the last 180 days in the location.

    `dataset`: the project, and `region-…` as its dataset. Raises NotFound if the region is not the query's location.
    """
    if dataset.dataset.lower() != f"{REGION_PREFIX}{location.lower()}":
        raise NotFound(f"Not found: Dataset {dataset} was not found in location {location}")
    oldest_us = clock.now_us() - KEPT_DAYS * DAY_US
    found = (one for one in store.all(dataset.project) if one.location == location and one.created_us >= oldest_us)
    return _as_table("JOBS", map(_job_row, found))


def _as_table(view: str, rows: Iterable[Row]) -> pa.Table:
    columns = [replace(field_of_type(kind), name=name) for name, kind in _COLUMNS[view].items()]
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(columns))


def _table_rows(version: TableVersion) -> Iterator[Row]:
    watermark_us = version.change_log.watermark_us if version.change_log else None
    yield {
        "table_type": "CLONE" if version.clone else "VIEW" if version.settings.view else "BASE TABLE",
        "upsert_stream_apply_watermark": to_datetime(floor_to_millisecond(watermark_us)) if watermark_us else None,
    }


def _partition_rows(version: TableVersion) -> Iterator[Row]:
    """A row for each partition; an unpartitioned table has one row, with a NULL partition_id.

    __UNPARTITIONED__ has the rows of the streaming buffer and of days that have no partition: all but those of NULL and
    of days from 1960 to 2159. Sources: "PARTITIONS view"; "Introduction to partitioned tables".
    """
    parts: list[tuple[str | None, int, int]] = [(None, version.rows, version.modified_us)]
    if version.settings.partition_column is not None:
        parts = [(key, partition.rows, partition.modified_us) for key, partition in sorted(version.partitions.items())]
        streamed = [(UNPARTITIONED, rows.segment.rows, rows.received_us) for rows in version.buffer]
        own = [part for part in parts if _has_partition(str(part[0]))]
        others = [*(part for part in parts if not _has_partition(str(part[0]))), *streamed]
        total = (UNPARTITIONED, sum(rows for _, rows, _ in others), max((us for _, _, us in others), default=0))
        parts = [*own, *([total] if others else [])]
    for partition_id, rows, modified_us in parts:
        yield {"partition_id": partition_id, "total_rows": rows, "last_modified_time": to_datetime(modified_us)}


def _has_partition(key: str) -> bool:
    return key == NULL_PARTITION or 1960 <= int(key[:4]) <= 2159


def _option_rows(version: TableVersion) -> Iterator[Row]:
    """A row for each option that is set. Values are SQL text as BigQuery prints it."""
    for name, option in TABLE_OPTIONS.items():
        value = getattr(version.settings, option.setting)
        if value != option.unset:
            yield {"option_name": name, "option_value": option.printed(value)}


_ROWS: Mapping[str, Callable[[TableVersion], Iterator[Row]]] = {
    "TABLES": _table_rows,
    "PARTITIONS": _partition_rows,
    "TABLE_OPTIONS": _option_rows,
}


def _job_row(record: JobRecord) -> Row:
    destination = record.configuration[record.kind].get("destinationTable")
    if not destination and (found := dml_statement(record)) is not None:
        destination = found[1].to_api()
    names = {"project_id": "projectId", "dataset_id": "datasetId", "table_id": "tableId"}
    return {
        "creation_time": to_datetime(floor_to_millisecond(record.created_us)),
        "destination_table": {name: destination[key] for name, key in names.items()} if destination else None,
        "job_id": record.job_id,
        "state": record.state,
        "statement_type": record.statistics.get("query", {}).get("statementType"),
        "user_email": record.user,
    }
