"""Handlers of jobs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from devstack.bigquery.errors import Invalid, NotImplementedConstruct
from devstack.bigquery.jobs.external_tables import parse_definitions
from devstack.bigquery.jobs.extract_request import parse_extract
from devstack.bigquery.jobs.load_request import parse_load
from devstack.bigquery.jobs.record import DONE, KINDS, JobRecord
from devstack.bigquery.rest.call import Answer, Call, page
from devstack.bigquery.rest.datasets import normalised_location
from devstack.bigquery.rest.job_resource import job_resource
from devstack.bigquery.service import StandIn
from devstack.bigquery.storage.model import DatasetId


def insert_job(stand_in: StandIn, call: Call) -> Answer:
    record = record_of(stand_in, call.project(), call.body)
    if record.configuration.get("dryRun"):
        return dry_run(stand_in, record, call)
    return Answer(job_resource(stand_in.jobs.insert(record), call.base_url))


def record_of(stand_in: StandIn, project: str, body: Mapping[str, Any], upload: str | None = None) -> JobRecord:
    """A new job's record from the request; what BigQuery refuses before a job exists is refused here."""
    reference = body.get("jobReference") or {}
    configuration = dict(body.get("configuration") or {})
    if reference.get("projectId", project) != project:
        raise Invalid(f"jobReference.projectId [{reference['projectId']}] differs from the URL's project [{project}].")
    kinds = [kind for kind in KINDS if configuration.get(kind)]
    if len(kinds) != 1:
        raise Invalid(f"Required parameter is missing: configuration has [{', '.join(kinds)}], expected one of "
                      f"[{', '.join(KINDS)}].")  # fmt: skip
    configuration["jobType"] = kinds[0].upper()
    _check_configuration(kinds[0], configuration)
    location = reference.get("location")
    return JobRecord(
        project=project,
        location=normalised_location(location) if location else location_of(stand_in, project, configuration),
        job_id=reference.get("jobId") or f"job_{uuid.uuid4().hex}",
        configuration=configuration,
        created_us=stand_in.clock.now_us(),
        upload=upload,
    )


def _check_configuration(kind: str, configuration: Mapping[str, Any]) -> None:
    if kind == "query":
        check_query(configuration["query"])
        parse_definitions(configuration["query"].get("tableDefinitions") or {})
        return
    if configuration.get("dryRun"):
        raise NotImplementedConstruct(f"configuration.dryRun of {'an' if kind == 'extract' else 'a'} {kind} job")
    if kind == "load":
        parse_load(configuration["load"])
    else:
        parse_extract(configuration["extract"])


def check_query(query: Mapping[str, Any]) -> None:
    if not query.get("query"):
        raise Invalid("Required parameter is missing: query")
    if query.get("useLegacySql", True) is not False:
        raise NotImplementedConstruct("useLegacySql = true, which is the API's default: set useLegacySql to false")


def location_of(stand_in: StandIn, project: str, configuration: Mapping[str, Any]) -> str:
    """Of the dataset that the configuration names first; a query's text is not looked at."""
    settings = next(configuration[kind] for kind in KINDS if configuration.get(kind))
    for name in ("destinationTable", "sourceTable", "defaultDataset"):
        reference = settings.get(name) or {}
        dataset = stand_in.catalog.datasets.find(
            DatasetId(reference.get("projectId", project), reference.get("datasetId", ""))
        )
        if dataset is not None:
            return dataset.location
    return normalised_location(None)


def dry_run(stand_in: StandIn, record: JobRecord, call: Call) -> Answer:
    """What the query would read; nothing is stored, not even the job."""
    statistics = stand_in.queries.dry_run(record)
    now_us = stand_in.clock.now_us()
    done = replace(record, state=DONE, started_us=now_us, ended_us=now_us, statistics=statistics)
    resource = job_resource(done, call.base_url)
    del resource["jobReference"]["jobId"]
    return Answer(resource)


def find_job(stand_in: StandIn, call: Call) -> JobRecord:
    """A job of another location is not found, as in BigQuery."""
    location = normalised_location(call.query.get("location"))
    return stand_in.jobs.store.get(call.project(), location, call.path["job"])


def get_job(stand_in: StandIn, call: Call) -> Answer:
    return Answer(job_resource(find_job(stand_in, call), call.base_url))


def cancel_job(stand_in: StandIn, call: Call) -> Answer:
    record = stand_in.jobs.cancel(find_job(stand_in, call))
    return Answer({"kind": "bigquery#jobCancelResponse", "job": job_resource(record, call.base_url)})


def delete_job(stand_in: StandIn, call: Call) -> Answer:
    record = find_job(stand_in, call)
    if record.state != DONE:
        raise Invalid(f"Cannot delete job {record.key}: its state is [{record.state}], expected [{DONE}]. Cancel it.")
    for child in stand_in.jobs.store.all(record.project):
        if child.parent_job_id == record.job_id and child.location == record.location:
            stand_in.jobs.store.remove(child)
    stand_in.jobs.store.remove(record)
    return Answer(None, 204)


def list_jobs(stand_in: StandIn, call: Call) -> Answer:
    """Newest first. Child jobs are listed only below their parent."""
    parent = call.query.get("parentJobId") or None
    states = {state.upper() for state in call.query.get("stateFilter", "").split(",") if state}
    earliest_ms, latest_ms = call.integer("minCreationTime", 0), call.integer("maxCreationTime")
    found = [
        record
        for record in stand_in.jobs.store.all(call.project())
        if record.parent_job_id == parent
        and (not states or record.state in states)
        and record.created_us // 1000 >= (earliest_ms or 0)
        and (latest_ms is None or record.created_us // 1000 <= latest_ms)
    ]
    items, token = page(found, call, default_size=50)
    full = call.query.get("projection") == "full"
    body: dict[str, Any] = {
        "kind": "bigquery#jobList",
        "jobs": [_list_entry(record, call.base_url, full) for record in items],
    }
    return Answer(body | ({"nextPageToken": token} if token else {}))


def _list_entry(record: JobRecord, base_url: str, full: bool) -> dict[str, Any]:
    resource = job_resource(record, base_url)
    entry = {key: resource[key] for key in ("kind", "id", "jobReference", "status", "statistics", "user_email")}
    entry["state"] = record.state
    if record.error is not None:
        entry["errorResult"] = record.error
    return entry | ({"configuration": resource["configuration"]} if full else {})
