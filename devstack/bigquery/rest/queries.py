"""Handlers of query results: jobs.query, which runs and answers at once, and jobs.getQueryResults."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Any

from devstack.bigquery.jobs.record import DONE, JobRecord
from devstack.bigquery.rest.call import Answer, Call
from devstack.bigquery.rest.cells import Encode, timestamp_format, timestamp_format_of
from devstack.bigquery.rest.datasets import normalised_location
from devstack.bigquery.rest.job_resource import FailedJob, job_reference
from devstack.bigquery.rest.jobs import check_query, find_job, location_of
from devstack.bigquery.rest.resources import etag_of
from devstack.bigquery.rest.rows import page_of
from devstack.bigquery.service import StandIn
from devstack.bigquery.storage.model import TableId

DEFAULT_TIMEOUT_MS = 10_000
MAXIMUM_TIMEOUT_MS = 200_000
_QUERY_KEYS = (
    "query", "useLegacySql", "useQueryCache", "parameterMode", "queryParameters", "defaultDataset",
    "maximumBytesBilled",
)  # fmt: skip


def run_query(stand_in: StandIn, call: Call) -> Answer:
    """A repeated requestId attaches to the job that the first request made."""
    body = call.body
    check_query(body)
    configuration: dict[str, Any] = {
        "jobType": "QUERY",
        "query": {key: body[key] for key in _QUERY_KEYS if key in body},
    }
    if body.get("labels"):
        configuration["labels"] = body["labels"]
    location = body.get("location")
    record = JobRecord(
        project=call.project(),
        location=normalised_location(location) if location else location_of(stand_in, call.project(), configuration),
        job_id=f"job_{uuid.uuid4().hex}",
        configuration=configuration,
        created_us=stand_in.clock.now_us(),
        request_id=body.get("requestId") or None,
    )
    if body.get("dryRun"):
        return _dry_run(stand_in, record)
    earlier = None
    if record.request_id is not None:
        earlier = stand_in.jobs.store.find_request(record.project, record.location, record.request_id)
    record = earlier or stand_in.jobs.insert(record)
    options = body.get("formatOptions") or {}
    timestamp = timestamp_format(bool(options.get("useInt64Timestamp")), options.get("timestampOutputFormat"))
    maximum = {"maxResults": str(body["maxResults"])} if body.get("maxResults") is not None else {}
    timeout_ms = int(body["timeoutMs"]) if body.get("timeoutMs") is not None else DEFAULT_TIMEOUT_MS
    return _results(stand_in, replace(call, query=maximum), record, timeout_ms, timestamp, "bigquery#queryResponse")


def get_query_results(stand_in: StandIn, call: Call) -> Answer:
    timeout_ms = call.integer("timeoutMs", DEFAULT_TIMEOUT_MS) or 0
    record = find_job(stand_in, call)
    return _results(stand_in, call, record, timeout_ms, timestamp_format_of(call), "bigquery#getQueryResultsResponse")


def _results(stand_in: StandIn, call: Call, record: JobRecord, timeout_ms: int, timestamp: Encode, kind: str) -> Answer:
    record = stand_in.jobs.wait(record, min(timeout_ms, MAXIMUM_TIMEOUT_MS) / 1000)
    body: dict[str, Any] = {"kind": kind, "jobReference": job_reference(record), "jobComplete": record.state == DONE}
    if record.state != DONE:
        return Answer(body)
    if record.error is not None:
        raise FailedJob(record.error)
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
        body |= _rows(stand_in, call, destination, timestamp)
    return Answer(body | {"etag": etag_of(body)})


def _rows(stand_in: StandIn, call: Call, destination: dict[str, str], timestamp: Encode) -> dict[str, Any]:
    table = TableId(destination["projectId"], destination["datasetId"], destination["tableId"])
    columns = stand_in.catalog.get(table).settings.schema
    found = page_of(stand_in, call, table, columns, timestamp)
    rows: dict[str, Any] = {
        "schema": {"fields": [column.to_api() for column in columns]},
        "totalRows": str(found.total),
        "rows": found.rows,
    }
    return rows | ({"pageToken": found.next_token} if found.next_token else {})


def _dry_run(stand_in: StandIn, record: JobRecord) -> Answer:
    statistics = stand_in.queries.dry_run(record)
    query = statistics["query"]
    body: dict[str, Any] = {
        "kind": "bigquery#queryResponse",
        "jobReference": {"projectId": record.project, "location": record.location},
        "jobComplete": True,
        "cacheHit": False,
        "totalBytesProcessed": statistics["totalBytesProcessed"],
    }
    return Answer(body | ({"schema": query["schema"]} if "schema" in query else {}))
