"""Handles jobs.query and jobs.getQueryResults."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, StandInError
from bigquery_standin.jobs.job_configuration import table_id_from_api
from bigquery_standin.jobs.job_store import DONE, JobRecord
from bigquery_standin.rest.job_handlers import find_job, job_reference, new_job_record
from bigquery_standin.rest.request_response import ApiRequest, ApiResponse
from bigquery_standin.rest.row_encoding import Encode, requested_timestamp_encoder, timestamp_encoder
from bigquery_standin.rest.table_data_handlers import read_row_page
from bigquery_standin.rest.table_resource import etag_of
from bigquery_standin.stand_in import StandIn

DEFAULT_TIMEOUT_MS = 10_000
MAXIMUM_TIMEOUT_MS = 200_000
_QUERY_KEYS = (
    "query", "useLegacySql", "useQueryCache", "parameterMode", "queryParameters", "defaultDataset",
    "maximumBytesBilled",
)  # fmt: skip


def run_query(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    """Run a query, and return its results.

    If an earlier request had the same requestId, no job is started: the results are those of that request.
    """
    body = request.body
    configuration = {"query": {key: body[key] for key in _QUERY_KEYS if key in body}}
    configuration |= {key: body[key] for key in ("labels", "jobTimeoutMs") if body.get(key)}
    job = {"configuration": configuration, "jobReference": {"location": body.get("location")}}
    record = new_job_record(stand_in, request.project(), job, request.user())
    record = replace(record, request_id=body.get("requestId") or None)
    if body.get("dryRun"):
        return _dry_run(stand_in, record)
    record = stand_in.jobs.insert(record)
    options = body.get("formatOptions") or {}
    encode_timestamp = timestamp_encoder(bool(options.get("useInt64Timestamp")), options.get("timestampOutputFormat"))
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


def get_query_results(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    timeout_ms = request.integer("timeoutMs", DEFAULT_TIMEOUT_MS) or 0
    record = find_job(stand_in, request)
    if record.kind != "query":
        raise Invalid(f"Job {record.key} is a {record.kind} job: only query jobs have query results.")
    return _results(
        stand_in, request, record, timeout_ms, requested_timestamp_encoder(request), "bigquery#getQueryResultsResponse"
    )


def _results(
    stand_in: StandIn, request: ApiRequest, record: JobRecord, timeout_ms: int, encode_timestamp: Encode, kind: str
) -> ApiResponse:
    """The page of results that the request's parameters describe; no results if the job still runs after the timeout.

    Raises StandInError if the job has failed.
    """
    record = stand_in.jobs.wait(record, min(timeout_ms, MAXIMUM_TIMEOUT_MS) / 1000)
    body: dict[str, Any] = {"kind": kind, "jobReference": job_reference(record), "jobComplete": record.state == DONE}
    if record.state != DONE:
        return ApiResponse(body)
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
    return ApiResponse(body | {"etag": etag_of(body)})


def _rows(
    stand_in: StandIn, request: ApiRequest, destination: dict[str, str], encode_timestamp: Encode
) -> dict[str, Any]:
    table = table_id_from_api(destination)
    columns = stand_in.catalog.get(table).settings.schema
    page = read_row_page(stand_in, request, table, columns, encode_timestamp)
    rows: dict[str, Any] = {
        "schema": {"fields": [column.to_api() for column in columns]},
        "totalRows": str(page.total),
        "rows": page.rows,
    }
    return rows | ({"pageToken": page.next_token} if page.next_token else {})


def _dry_run(stand_in: StandIn, record: JobRecord) -> ApiResponse:
    statistics = stand_in.queries.dry_run(record)
    query = statistics["query"]
    body: dict[str, Any] = {
        "kind": "bigquery#queryResponse",
        "jobReference": {"projectId": record.project, "location": record.location},
        "jobComplete": True,
        "cacheHit": False,
        "totalBytesProcessed": statistics["totalBytesProcessed"],
    }
    return ApiResponse(body | ({"schema": query["schema"]} if "schema" in query else {}))
