"""Receives files that are sent with a load job, in a multipart request or in a request of their own."""

from __future__ import annotations

import json
import uuid
from email.parser import BytesParser
from email.policy import HTTP
from pathlib import Path
from typing import Any

from bigquery_standin.bigquery_errors import Invalid, NotFound, NotImplementedConstruct
from bigquery_standin.rest.job_handlers import job_resource, new_job_record
from bigquery_standin.rest.request_response import ApiRequest, ApiResponse, parse_json
from bigquery_standin.rest.supported_methods import METHODS
from bigquery_standin.stand_in import StandIn


def open_upload(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    """A multipart upload, or the request that begins a resumable one."""
    kind, path = request.query.get("uploadType"), stand_in.uploads / uuid.uuid4().hex
    if kind == "multipart":
        metadata, file = _multipart(request)
        job = _checked(parse_json(metadata))
        path.write_bytes(file)
        return _start(stand_in, request, request.user(), job, path)
    if kind != "resumable":
        raise NotImplementedConstruct(f"uploadType {kind}")
    session = {"user": request.user(), "job": _checked(request.body)}
    path.with_suffix(".json").write_text(json.dumps(session))
    address = request.url.include_query_params(upload_id=path.name)
    return ApiResponse({}, 200, {"Location": str(address)})


def continue_upload(stand_in: StandIn, request: ApiRequest) -> ApiResponse:
    """The content of a resumable upload, in one request. Raises NotFound for an unknown upload, and as `_start`."""
    path = stand_in.uploads / Path(request.query.get("upload_id", "")).name
    session_path = path.with_suffix(".json")
    if not session_path.is_file():
        raise NotFound(f"Not found: upload session [{path.name}]: start the upload again.")
    size, content_range = len(request.content), request.headers.get("content-range")
    if content_range not in (None, f"bytes 0-{size - 1}/{size}", "bytes */0"):
        raise NotImplementedConstruct(f"an upload in several requests (Content-Range {content_range})")
    path.write_bytes(request.content)
    session = json.loads(session_path.read_text())
    session_path.unlink()
    return _start(stand_in, request, session["user"], session["job"], path)


def _multipart(request: ApiRequest) -> tuple[bytes, bytes]:
    """The parts of a multipart request: the job resource as JSON, and the file. Raises Invalid unless there are two."""
    header = b"Content-Type: " + request.headers.get("content-type", "").encode()
    message = BytesParser(policy=HTTP).parsebytes(header + b"\r\n\r\n" + request.content)
    parts = list(message.iter_parts()) if message.is_multipart() else []
    if len(parts) != 2:
        raise Invalid(f"Multipart upload has [{len(parts)}] parts, expected [2]: the job as JSON and the file.")
    metadata, file = (part.get_payload(decode=True) for part in parts)
    return bytes(metadata), bytes(file)


def _checked(job: Any) -> Any:
    next(method for method in METHODS if method.id == "jobs.insert").check_body(job)
    return job


def _start(stand_in: StandIn, request: ApiRequest, user: str, job: dict[str, Any], path: Path) -> ApiResponse:
    """Starts the load job of an uploaded file. Deletes the file if the job cannot be started.

    Raises what `new_job_record` and `JobRunner.insert` raise, and Invalid for another kind of job.
    """
    try:
        record = new_job_record(stand_in, request.project(), job, user, upload=path.name)
        if record.kind != "load":
            raise Invalid(f"An upload needs a load job, the configuration has [{record.kind}].")
        stand_in.jobs.insert(record)
    except Exception:
        path.unlink()
        raise
    return ApiResponse(job_resource(record, request.base_url))
