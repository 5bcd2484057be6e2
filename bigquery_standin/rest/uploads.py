"""Receives a file that is sent with a load job, in one multipart request."""

from __future__ import annotations

import uuid
from email.parser import BytesParser
from email.policy import HTTP

from bigquery_standin.bigquery_errors import Invalid, NotImplementedConstruct
from bigquery_standin.rest.job_handlers import job_resource, new_job_record
from bigquery_standin.rest.request_response import ApiRequest, ApiResponse, parse_json
from bigquery_standin.rest.supported_methods import METHODS
from bigquery_standin.stand_in import StandIn


def upload(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    """Starts the load job of an uploaded file. Deletes the file if the job cannot be started.

    Raises what `new_job_record` and `JobRunner.insert` raise, and Invalid for another kind of job.
    """
    kind = request.query.get("uploadType")
    if kind != "multipart":
        raise NotImplementedConstruct(f"uploadType {kind}: Google's clients send less than 5 MB of known size at once")
    metadata, file = _parts(request)
    job, path = parse_json(metadata), stand_in.uploads / uuid.uuid4().hex
    next(method for method in METHODS if method.id == "jobs.insert").check_body(job)
    path.write_bytes(file)
    try:
        record = new_job_record(stand_in, request.project(), job, request.user(), upload=path.name)
        if record.kind != "load":
            raise Invalid(f"An upload needs a load job, the configuration has [{record.kind}].")
        stand_in.jobs.insert(record)
    except Exception:
        path.unlink()
        raise
    return ApiResponse(job_resource(record, request.base_url))


def _parts(request: ApiRequest) -> tuple[bytes, bytes]:
    """The parts of a multipart request: the job resource as JSON, and the file. Raises Invalid unless there are two."""
    header = b"Content-Type: " + request.headers.get("content-type", "").encode()
    message = BytesParser(policy=HTTP).parsebytes(header + b"\r\n\r\n" + request.content)
    parts = list(message.iter_parts()) if message.is_multipart() else []
    if len(parts) != 2:
        raise Invalid(f"Multipart upload has [{len(parts)}] parts, expected [2]: the job as JSON and the file.")
    metadata, file = (part.get_payload(decode=True) for part in parts)
    return bytes(metadata), bytes(file)
