"""Handles jobs.query, jobs.getQueryResults and tabledata.list.

Rows are read in pages. A page token is the number of the page's first row. Values are returned as strings, rows and
records as objects with the keys `f` and `v`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from bigquery_standin.bigquery_errors import Invalid, StandInError
from bigquery_standin.clock import MICROSECONDS, from_datetime
from bigquery_standin.jobs.job_configuration import table_id_from_api
from bigquery_standin.jobs.job_store import DONE, JobRecord
from bigquery_standin.rest.google_api import Answer, ApiRequest
from bigquery_standin.rest.job_handlers import find_job, job_reference, new_job_record
from bigquery_standin.rest.table_handlers import requested_table
from bigquery_standin.sql.field_types import TableField
from bigquery_standin.sql.scalar_types import SCALARS
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.access import check_all_rows, check_columns
from bigquery_standin.storage.model import TableId, TableVersion
from bigquery_standin.storage.segment_store import SegmentStore

DEFAULT_TIMEOUT_MS = 10_000
MAXIMUM_TIMEOUT_MS = 200_000
_QUERY_KEYS = ("query", "useLegacySql", "useQueryCache", "parameterMode", "queryParameters", "maximumBytesBilled")


def run_query(stand_in: StandIn, request: ApiRequest) -> Answer:
    """Run a query, and return its results.

    If an earlier request had the same requestId, no job is started: the results are those of that request.
    """
    body = request.body
    configuration = {"query": {key: body[key] for key in _QUERY_KEYS if key in body}}
    configuration |= {key: body[key] for key in ("labels", "jobTimeoutMs") if body.get(key)}
    job = {"configuration": configuration, "jobReference": {"location": body.get("location")}}
    record = new_job_record(stand_in, request.project(), job, request.user())
    record = replace(record, request_id=body.get("requestId") or None)
    record = stand_in.jobs.insert(record)
    encode_timestamp = _timestamp_encoder(bool((body.get("formatOptions") or {}).get("useInt64Timestamp")))
    page_parameters = {"maxResults": str(body["maxResults"])} if body.get("maxResults") is not None else {}
    timeout_ms = int(body["timeoutMs"]) if body.get("timeoutMs") is not None else DEFAULT_TIMEOUT_MS
    return _results(
        stand_in,
        replace(request, query=page_parameters),
        record,
        timeout_ms,
        encode_timestamp,
        "bigquery#queryResponse",
    )


def get_query_results(stand_in: StandIn, request: ApiRequest) -> Answer:
    timeout_ms = request.integer("timeoutMs", DEFAULT_TIMEOUT_MS) or 0
    record = find_job(stand_in, request)
    if record.kind != "query":
        raise Invalid(f"Job {record.key} is a {record.kind} job: only query jobs have query results.")
    return _results(
        stand_in, request, record, timeout_ms, _requested_encoder(request), "bigquery#getQueryResultsResponse"
    )


def _results(
    stand_in: StandIn, request: ApiRequest, record: JobRecord, timeout_ms: int, encode_timestamp: Encode, kind: str
) -> Answer:
    """The page of results that the request's parameters describe; no results if the job still runs after the timeout.

    Raises StandInError if the job has failed.
    """
    record = stand_in.jobs.store.wait(record.key, min(timeout_ms, MAXIMUM_TIMEOUT_MS) / 1000)
    body: dict[str, Any] = {"kind": kind, "jobReference": job_reference(record), "jobComplete": record.state == DONE}
    if record.state != DONE:
        return body
    if record.error is not None:
        raise StandInError(record.error["message"], record.error["reason"])
    statistics = record.statistics
    query = statistics["query"]
    body |= {
        "cacheHit": query["cacheHit"],
        "totalBytesProcessed": statistics["totalBytesProcessed"],
        "totalBytesBilled": query["totalBytesBilled"],
        "totalSlotMs": statistics["totalSlotMs"],
        "location": record.location,
        "statementType": query["statementType"],
    }
    if "numDmlAffectedRows" in query:
        body |= {"numDmlAffectedRows": query["numDmlAffectedRows"], "dmlStats": query["dmlStats"]}
    destination = record.configuration["query"].get("destinationTable")
    if destination is not None and query["statementType"] in ("SELECT", "SCRIPT"):
        body |= _rows(stand_in, request, destination, encode_timestamp)
    return body


def _rows(
    stand_in: StandIn, request: ApiRequest, destination: dict[str, str], encode_timestamp: Encode
) -> dict[str, Any]:
    table = table_id_from_api(destination)
    columns = stand_in.catalog.get(table).settings.schema
    schema = {"fields": [column.to_api() for column in columns]}
    return {"schema": schema, **_row_page(stand_in, request, table, encode_timestamp)}


MAXIMUM_PAGE_ROWS = 50_000


def list_rows(stand_in: StandIn, request: ApiRequest) -> Answer:
    selected = request.query.get("selectedFields", "")
    page = _row_page(stand_in, request, requested_table(request), _requested_encoder(request), selected)
    return {"kind": "bigquery#tableDataList", **page}


def _row_page(
    stand_in: StandIn, request: ApiRequest, table: TableId, encode_timestamp: Encode, selected: str = ""
) -> dict[str, Any]:
    """The page that the request's maxResults, startIndex and pageToken describe.

    `selected`: names of columns, separated by commas; all columns if it is empty. Raises AccessDenied for rows or
    columns that the caller may not read, Invalid for a column that is not there, and NotFound for such a table.
    """
    start = request.integer("pageToken") or request.integer("startIndex") or 0  # the bq tool sends startIndex
    size = min(request.integer("maxResults", MAXIMUM_PAGE_ROWS) or 0, MAXIMUM_PAGE_ROWS)
    version = stand_in.catalog.get(table)
    caller = stand_in.caller(request.user())
    check_all_rows(caller, stand_in.catalog, table, version, "tabledata.list")
    check_columns(caller, table, version)
    rows = read_page(stand_in.catalog.segments, version, start, size)
    following = start + rows.num_rows
    columns = _selected_columns(table, version, selected)
    cells = encode_rows(rows.select([column.name for column in columns]), columns, encode_timestamp)
    page: dict[str, Any] = {"totalRows": str(version.rows), "rows": cells}
    return page | ({"pageToken": str(following)} if following < version.rows else {})


def _selected_columns(table: TableId, version: TableVersion, names: str) -> list[TableField]:
    selected = {name.strip().lower() for name in names.split(",") if name}
    columns = [column for column in version.settings.schema if not selected or column.name.lower() in selected]
    if selected and len(columns) != len(selected):
        known = ", ".join(column.name for column in version.settings.schema)
        raise Invalid(f"selectedFields of {table} is [{names}], expected top-level columns of [{known}].")
    return columns


def read_page(store: SegmentStore, version: TableVersion, start: int, count: int) -> pa.Table:
    """Up to `count` rows from `start` on, ordered by partition, segment and position in the file.

    Rows in the streaming buffer are left out, and `start` counts the others from 0.
    """
    segments, skipped, first = [], 0, 0
    for segment in version.segments():
        following = first + segment.rows
        if following <= start:
            skipped = following
        elif first < start + count:
            segments.append(segment)
        first = following
    return store.read_all(segments, version.settings.schema).slice(start - skipped, count)


Encode = Callable[[Any], Any]  # from a value in Python to the value in the response


def _timestamp_encoder(use_int64: bool) -> Encode:
    """The encoder of TIMESTAMP values: as microseconds or decimal seconds."""
    return SCALARS["TIMESTAMP"].encode if use_int64 else _seconds


def _requested_encoder(request: ApiRequest) -> Encode:
    return _timestamp_encoder(request.flag("formatOptions.useInt64Timestamp"))


def encode_rows(rows: pa.Table, columns: Sequence[TableField], encode_timestamp: Encode) -> list[dict[str, Any]]:
    cells = [_column_cells(rows.column(position), column, encode_timestamp) for position, column in enumerate(columns)]
    return [{"f": list(row)} for row in zip(*cells, strict=True)]


def _column_cells(values: pa.ChunkedArray, column: TableField, encode_timestamp: Encode) -> list[dict[str, Any]]:
    """The cells of a column. Arrow encodes the most frequent types, because that is ten times as fast as Python."""
    if column.mode != "REPEATED" and column.type in ("INT64", "DATE", "BOOL", "STRING"):
        return [{"v": text} for text in values.cast(pa.string()).to_pylist()]
    encode = _encoder(column, encode_timestamp)
    return [{"v": encode(value)} for value in values.to_pylist()]


def _encoder(column: TableField, encode_timestamp: Encode) -> Encode:
    scalar = _scalar_encoder(column, encode_timestamp)
    if column.mode == "REPEATED":
        return lambda values: [{"v": None if value is None else scalar(value)} for value in values or ()]
    return lambda value: None if value is None else scalar(value)


def _scalar_encoder(column: TableField, encode_timestamp: Encode) -> Encode:
    if column.type == "STRUCT":
        inner = [(child.name, _encoder(child, encode_timestamp)) for child in column.fields]
        return lambda value: {"f": [{"v": encode(value[name])} for name, encode in inner]}
    return encode_timestamp if column.type == "TIMESTAMP" else SCALARS[column.type].encode


def _seconds(value: datetime) -> str:
    seconds, rest = divmod(from_datetime(value), MICROSECONDS)
    return str(Decimal(seconds) + Decimal(rest) / MICROSECONDS)
