"""Routes HTTP requests to handlers, which run in threads, returns errors as BigQuery's JSON, and injects faults.

It handles uploads and the requests that only the stand-in has itself.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from email.parser import BytesParser
from email.policy import HTTP
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bigquery_standin.bigquery_errors import Invalid, NotFound, NotImplementedConstruct, StandInError
from bigquery_standin.clock import MICROSECONDS
from bigquery_standin.faults import parse_fault
from bigquery_standin.rest.google_api import Answer, ApiRequest, Handler, local_document, parse_json
from bigquery_standin.rest.job_handlers import job_resource, new_job_record
from bigquery_standin.rest.supported_methods import METHODS
from bigquery_standin.stand_in import StandIn

THREAD_COUNT = 100  # a request that waits for the end of a job occupies one
LOG = logging.getLogger(__name__)


def _discovery(stand_in: StandIn, request: ApiRequest) -> Answer:
    version = request.query.get("version", "v2")
    if version != "v2":
        raise NotFound(f"Not found: discovery document of version [{version}].")
    return local_document(request.base_url)


def _refuse(stand_in: StandIn, request: ApiRequest) -> Answer:
    raise NotImplementedConstruct(f"{request.http} /{request.path['rest']}")


# Files that are sent with load jobs.


def upload(stand_in: StandIn, request: ApiRequest) -> Answer:
    """Starts the load job of an uploaded file.

    Raises what `new_job_record` and `JobRunner.insert` raise, and Invalid for another kind of job.
    """
    kind = request.query.get("uploadType")
    if kind != "multipart":
        raise NotImplementedConstruct(f"uploadType {kind}: Google's clients send less than 5 MB of known size at once")
    metadata, file = _parts(request)
    job = parse_json(metadata)
    next(method for method in METHODS if method.id == "jobs.insert").check_body(job)
    record = new_job_record(stand_in, request.project(), job, request.user())
    if record.kind != "load":
        raise Invalid(f"An upload needs a load job, the configuration has [{record.kind}].")
    stand_in.jobs.insert(record, upload=file)
    return job_resource(record)


def _parts(request: ApiRequest) -> tuple[bytes, bytes]:
    """The parts of a multipart request: the job resource as JSON, and the file. Raises Invalid unless there are two."""
    header = b"Content-Type: " + request.headers.get("content-type", "").encode()
    message = BytesParser(policy=HTTP).parsebytes(header + b"\r\n\r\n" + request.content)
    parts = list(message.iter_parts()) if message.is_multipart() else []
    if len(parts) != 2:
        raise Invalid(f"Multipart upload has [{len(parts)}] parts, expected [2]: the job as JSON and the file.")
    metadata, file = (part.get_payload(decode=True) for part in parts)
    return bytes(metadata), bytes(file)


# Requests that BigQuery does not have, below /_standin/: health, the clock, faults and grants.


def get_clock(stand_in: StandIn, request: ApiRequest) -> Answer:
    return {"now": stand_in.clock.now().isoformat()}


def move_clock(stand_in: StandIn, request: ApiRequest) -> Answer:
    """Move the clock forward. Before the response is sent, what is due by then is done in the background."""
    body = request.body if isinstance(request.body, dict) else {}
    if set(body) != {"advance_seconds"} or not isinstance(body["advance_seconds"], int | float):
        raise Invalid(f"Clock request is [{body}], expected a number of [advance_seconds].")
    stand_in.clock.advance(int(body["advance_seconds"] * MICROSECONDS))
    stand_in.background.run_tasks()
    return get_clock(stand_in, request)


def add_grant(stand_in: StandIn, request: ApiRequest) -> Answer:
    body: Any = request.body
    if not isinstance(body, dict) or set(body) != {"member", "permission"}:
        raise Invalid(f"Grant is [{body}], expected [member] and [permission].")
    stand_in.grants.add(body["member"], body["permission"])
    return None


_CONTROL: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "health", lambda stand_in, _: {"status": "ok", "write_api": stand_in.write_api_address}),
    ("GET", "clock", get_clock),
    ("POST", "clock", move_clock),
    ("POST", "faults", lambda stand_in, request: stand_in.faults.add(parse_fault(request.body))),
    ("DELETE", "faults", lambda stand_in, _: stand_in.faults.clear()),
    ("POST", "grants", add_grant),
    ("DELETE", "grants", lambda stand_in, _: stand_in.grants.clear()),
)
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    *((method.http, f"/bigquery/v2/{method.path}", method.answer) for method in METHODS),
    *((http, f"/_standin/{path}", handler) for http, path, handler in _CONTROL),
    ("POST", "/upload/bigquery/v2/projects/{project}/jobs", upload),
    ("GET", "/$discovery/rest", _discovery),
    ("GET", "/discovery/v1/apis/bigquery/v2/rest", _discovery),
    *((http, "/{rest:path}", _refuse) for http in ("GET", "POST", "PUT", "PATCH", "DELETE")),
)


def create_application(stand_in: StandIn) -> Any:
    """The stand-in as an ASGI application."""
    server = _Server(stand_in)
    routes = [Route(path, server.endpoint(handler), methods=[http]) for http, path, handler in ROUTES]
    return Starlette(routes=routes)


class _Server:
    """The endpoints that Starlette calls."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self._thread_limiter: CapacityLimiter | None = None

    def endpoint(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            if self._thread_limiter is None:
                self._thread_limiter = CapacityLimiter(THREAD_COUNT)
            path = request.url.path
            fault = (
                None if path.startswith("/_standin/") else self._stand_in.faults.match(method=request.method, path=path)
            )
            if fault is not None:
                return _answer(StandInError(fault.message, fault.reason), fault.status)
            received = ApiRequest(
                http=request.method,
                path=request.path_params,
                query=_parameters(request),
                headers=request.headers,
                content=await request.body(),
                base_url=str(request.base_url),
            )
            try:
                response = await run_sync(handler, self._stand_in, received, limiter=self._thread_limiter)
            except StandInError as error:
                return _answer(error, error.http_status)
            except Exception as error:
                LOG.exception("A request failed inside the stand-in.")
                failed = StandInError(f"The stand-in failed: {error!r}. See its log.", "standInFailed")
                return _answer(failed, failed.http_status)
            return Response(status_code=204) if response is None else JSONResponse(response)

        return endpoint


def _parameters(request: Request) -> dict[str, str]:
    """Joins the values of a repeated parameter (stateFilter) by commas."""
    return {
        key: ",".join(request.query_params.getlist(key))
        for key in request.query_params.keys()  # noqa: SIM118
    }


def _answer(error: StandInError, status: int) -> Response:
    entry = {"message": error.message, "domain": "global", "reason": error.reason}
    body = {"code": status, "message": error.message, "errors": [entry], "status": error.status_name}
    return JSONResponse({"error": body}, status_code=status)
