"""Handles jobs.insert, list, get and cancel, and writes jobs as the API's resources."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.jobs.job_configuration import parse_extract_configuration, parse_load_configuration
from bigquery_standin.jobs.job_store import DONE, KINDS, JobRecord
from bigquery_standin.jobs.parquet_rows import parse_table_definitions
from bigquery_standin.rest.dataset_handlers import normalize_location
from bigquery_standin.rest.google_api import Answer, ApiRequest, check_reference, paginate
from bigquery_standin.stand_in import StandIn


def insert_job(stand_in: StandIn, request: ApiRequest) -> Answer:
    record = new_job_record(stand_in, request.project(), request.body, request.user())
    if record.configuration.get("dryRun"):
        return dry_run(stand_in, record)
    return job_resource(stand_in.jobs.insert(record))


def new_job_record(stand_in: StandIn, project: str, body: Mapping[str, Any], user: str) -> JobRecord:
    """The record of a new job. Raises the errors that BigQuery returns without creating a job."""
    reference = body.get("jobReference") or {}
    configuration = dict(body.get("configuration") or {})
    check_reference("jobReference", reference, {"projectId": project})
    kinds = [kind for kind in KINDS if configuration.get(kind)]
    if len(kinds) != 1:
        problem = "More than one kind of job" if kinds else "Required parameter is missing"
        raise Invalid(f"{problem}: configuration has [{', '.join(kinds)}], expected one of [{', '.join(KINDS)}].")
    configuration["jobType"] = kinds[0].upper()
    _check_configuration(kinds[0], configuration)
    return JobRecord(
        project=project,
        location=normalize_location(reference.get("location")),
        job_id=reference.get("jobId") or f"job_{uuid.uuid4().hex}",
        configuration=configuration,
        created_us=stand_in.clock.now_us(),
        user=user,
    )


def _check_configuration(kind: str, configuration: Mapping[str, Any]) -> None:
    if kind == "query":
        _check_query(configuration["query"])
        parse_table_definitions(configuration["query"].get("tableDefinitions") or {})
        return
    if configuration.get("dryRun"):
        raise NotImplementedConstruct(f"configuration.dryRun of {'an' if kind == 'extract' else 'a'} {kind} job")
    if kind == "load":
        parse_load_configuration(configuration["load"])
    else:
        parse_extract_configuration(configuration["extract"])


def _check_query(query: Mapping[str, Any]) -> None:
    """Raises Invalid for a query without SQL text, NotImplementedConstruct for legacy SQL."""
    if not query.get("query"):
        raise Invalid("Required parameter is missing: query")
    if query.get("useLegacySql", True) is not False:
        raise NotImplementedConstruct("useLegacySql = true, which is the API's default: set useLegacySql to false")


def dry_run(stand_in: StandIn, record: JobRecord) -> Answer:
    """Return the statistics that the query would have. No job is stored."""
    statistics = stand_in.queries.dry_run(record)
    now_us = stand_in.clock.now_us()
    done = replace(record, state=DONE, started_us=now_us, ended_us=now_us, statistics=statistics)
    resource = job_resource(done)
    del resource["jobReference"]["jobId"]
    return resource


def find_job(stand_in: StandIn, request: ApiRequest) -> JobRecord:
    """The job in the URL. Like BigQuery, raises NotFound if it is not in the request's location, by default US."""
    location = normalize_location(request.query.get("location"))
    return stand_in.jobs.store.get(request.project(), location, request.path["job"])


def get_job(stand_in: StandIn, request: ApiRequest) -> Answer:
    return job_resource(find_job(stand_in, request))


def cancel_job(stand_in: StandIn, request: ApiRequest) -> Answer:
    record = stand_in.jobs.cancel(find_job(stand_in, request))
    return {"kind": "bigquery#jobCancelResponse", "job": job_resource(record)}


def list_jobs(stand_in: StandIn, request: ApiRequest) -> Answer:
    """Lists jobs, newest first. Child jobs are listed only if the request names their parent."""
    parent = request.query.get("parentJobId") or None
    states = {state.upper() for state in request.query.get("stateFilter", "").split(",") if state}
    earliest_ms = request.integer("minCreationTime", 0) or 0
    records = [
        record
        for record in stand_in.jobs.store.all(request.project())
        if record.parent_job_id == parent
        and (not states or record.state in states)
        and record.created_us // 1000 >= earliest_ms
    ]
    items, next_page = paginate(records, request, default_size=50)
    full = request.query.get("projection") == "full"
    body: dict[str, Any] = {
        "kind": "bigquery#jobList",
        "jobs": [_list_entry(record, full) for record in items],
    }
    return body | next_page


def _list_entry(record: JobRecord, full: bool) -> dict[str, Any]:
    resource = job_resource(record)
    entry = {key: resource[key] for key in ("kind", "id", "jobReference", "status", "statistics", "user_email")}
    entry["state"] = record.state
    if record.error is not None:
        entry["errorResult"] = record.error
    return entry | ({"configuration": resource["configuration"]} if full else {})


def job_reference(record: JobRecord) -> dict[str, str]:
    return {"projectId": record.project, "jobId": record.job_id, "location": record.location}


def job_resource(record: JobRecord) -> dict[str, Any]:
    status: dict[str, Any] = {"state": record.state}
    if record.error is not None:
        status |= {"errorResult": record.error, "errors": [record.error]}
    return {
        "kind": "bigquery#job",
        "id": record.key,
        "user_email": record.user,
        "jobReference": job_reference(record),
        "configuration": record.configuration,
        "statistics": _statistics(record),
        "status": status,
    }


def _statistics(record: JobRecord) -> dict[str, Any]:
    statistics: dict[str, Any] = {"creationTime": str(record.created_us // 1000)}
    if record.started_us is not None:
        statistics["startTime"] = str(record.started_us // 1000)
    if record.ended_us is not None:
        statistics["endTime"] = str(record.ended_us // 1000)
    if record.parent_job_id is not None:
        statistics["parentJobId"] = record.parent_job_id
    return statistics | dict(record.statistics)
