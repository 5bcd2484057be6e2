"""The HTTP side: routes from the list of supported methods, handlers in threads, errors in BigQuery's JSON form."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from devstack.bigquery.errors import Invalid, NotFound, NotImplementedConstruct, StandInError
from devstack.bigquery.rest import control, datasets, jobs, queries, row_policies, rows, tables
from devstack.bigquery.rest.call import Answer, Call
from devstack.bigquery.rest.discovery import local_document
from devstack.bigquery.rest.fault_gate import FaultGate
from devstack.bigquery.rest.field_mask import apply_mask, parse_mask
from devstack.bigquery.rest.supported import METHODS, REFUSED_METHODS, Method
from devstack.bigquery.rest.uploads import Uploads
from devstack.bigquery.rest.validation import check_body, check_parameters
from devstack.bigquery.service import StandIn
from devstack.bigquery.storage.refusals import StandInFailed

Handler = Callable[[StandIn, Call], Answer]
Endpoint = Callable[[Request], Awaitable[Response]]
THREADS = 100  # requests that wait for a job's end each hold one
LOG = logging.getLogger(__name__)

HANDLERS: Mapping[str, Handler] = {
    "projects.list": datasets.list_projects,
    "datasets.insert": datasets.insert_dataset,
    "datasets.list": datasets.list_datasets,
    "datasets.get": datasets.get_dataset,
    "datasets.patch": datasets.patch_dataset,
    "datasets.update": datasets.update_dataset,
    "datasets.delete": datasets.delete_dataset,
    "tables.insert": tables.insert_table,
    "tables.list": tables.list_tables,
    "tables.get": tables.get_table,
    "tables.patch": tables.patch_table,
    "tables.update": tables.update_table,
    "tables.delete": tables.delete_table,
    "tabledata.list": rows.list_rows,
    "rowAccessPolicies.insert": row_policies.insert_policy,
    "rowAccessPolicies.list": row_policies.list_policies,
    "rowAccessPolicies.get": row_policies.get_one_policy,
    "rowAccessPolicies.delete": row_policies.delete_policy,
    "jobs.insert": jobs.insert_job,
    "jobs.list": jobs.list_jobs,
    "jobs.get": jobs.get_job,
    "jobs.cancel": jobs.cancel_job,
    "jobs.delete": jobs.delete_job,
    "jobs.query": queries.run_query,
    "jobs.getQueryResults": queries.get_query_results,
}
CONTROL: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "health", control.health),
    ("GET", "clock", control.get_clock),
    ("POST", "clock", control.move_clock),
    ("GET", "faults", control.list_faults),
    ("POST", "faults", control.add_fault),
    ("DELETE", "faults", control.clear_faults),
)


def create_application(stand_in: StandIn) -> Any:
    """An ASGI application."""
    server = _Server(stand_in)
    routes = [
        Route(f"/bigquery/v2/{method.path}", server.api_endpoint(method), methods=[method.http]) for method in METHODS
    ]
    for method_id, http, path, reason in REFUSED_METHODS:
        routes.append(Route(f"/bigquery/v2/{path}", server.refusal(f"{method_id}: {reason}"), methods=[http]))
    for http, path, handler in CONTROL:
        routes.append(Route(f"/_standin/{path}", server.control_endpoint(handler), methods=[http]))
    upload = "/upload/bigquery/v2/projects/{project}/jobs"
    routes += [
        Route(upload, server.open_upload, methods=["POST"]),
        Route(upload, server.continue_upload, methods=["PUT"]),
        Route("/$discovery/rest", server.discovery, methods=["GET"]),
        Route("/discovery/v1/apis/bigquery/v2/rest", server.discovery, methods=["GET"]),
        Route("/{rest:path}", server.unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]
    return FaultGate(Starlette(routes=routes), stand_in.faults)


class _Server:
    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self._uploads = Uploads(stand_in)
        self._threads: CapacityLimiter | None = None

    def api_endpoint(self, method: Method) -> Endpoint:
        def handle(call: Call) -> Answer:
            check_parameters(method, call.query)
            check_body(method, call.body)
            answer = HANDLERS[method.id](self._stand_in, call)
            mask = call.query.get("fields")
            return Answer(apply_mask(answer.body, parse_mask(mask)), answer.status) if mask and answer.body else answer

        return self._endpoint(handle)

    def control_endpoint(self, handler: Handler) -> Endpoint:
        return self._endpoint(lambda call: handler(self._stand_in, call))

    def refusal(self, construct: str) -> Endpoint:
        def handle(call: Call) -> Answer:
            raise NotImplementedConstruct(construct)

        return self._endpoint(handle)

    async def discovery(self, request: Request) -> Response:
        if request.query_params.get("version", "v2") != "v2":
            return _error(NotFound(f"Not found: discovery document of version [{request.query_params['version']}]."))
        return JSONResponse(local_document(str(request.base_url)))

    async def unknown(self, request: Request) -> Response:
        return _error(NotImplementedConstruct(f"{request.method} {request.url.path}"))

    async def open_upload(self, request: Request) -> Response:
        kind, project = request.query_params.get("uploadType"), request.path_params["project"]
        content, base_url = await request.body(), str(request.base_url)
        insert = next(method for method in METHODS if method.id == "jobs.insert")

        def handle() -> Answer:
            if kind == "multipart":
                header = request.headers.get("content-type", "")
                body, file = self._uploads.multipart(project, header, content, base_url)
                check_body(insert, body)
                return self._uploads.start(project, body, self._uploads.store(file), base_url)
            if kind != "resumable":
                raise NotImplementedConstruct(f"uploadType {kind}")
            body = _json(content)
            check_body(insert, body)
            address = request.url.include_query_params(upload_id=self._uploads.open(project, body))
            return Answer({}, 200, {"Location": str(address)})

        return await self._answer(handle)

    async def continue_upload(self, request: Request) -> Response:
        content, base_url = await request.body(), str(request.base_url)
        upload_id = request.query_params.get("upload_id", "")
        content_range = request.headers.get("content-range")
        return await self._answer(lambda: self._uploads.append(upload_id, content_range, content, base_url))

    def _endpoint(self, handle: Callable[[Call], Answer]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            content = await request.body()

            def run() -> Answer:
                return handle(
                    Call(
                        path=request.path_params,
                        query=_parameters(request),
                        headers=request.headers,
                        body=_json(content),
                        base_url=str(request.base_url),
                    )
                )

            return await self._answer(run)

        return endpoint

    async def _answer(self, run: Callable[[], Answer]) -> Response:
        if self._threads is None:
            self._threads = CapacityLimiter(THREADS)
        try:
            answer = await run_sync(run, limiter=self._threads)
        except StandInError as error:
            return _error(error)
        except Exception as error:
            LOG.exception("A request failed inside the stand-in.")
            return _error(StandInFailed(f"The stand-in failed: {error!r}. See its log."))
        if answer.body is None:
            return Response(status_code=answer.status, headers=dict(answer.headers))
        return JSONResponse(answer.body, status_code=answer.status, headers=dict(answer.headers))


def _parameters(request: Request) -> dict[str, str]:
    """A repeated parameter (stateFilter) becomes one with commas."""
    return {
        key: ",".join(request.query_params.getlist(key))
        for key in request.query_params.keys()  # noqa: SIM118
    }


def _json(content: bytes) -> Any:
    try:
        return json.loads(content) if content else {}
    except ValueError as error:
        raise Invalid(f"Invalid JSON payload received: {error}") from error


_STATUS_NAMES = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 409: "ALREADY_EXISTS",
                 412: "FAILED_PRECONDITION", 500: "INTERNAL", 501: "UNIMPLEMENTED", 503: "UNAVAILABLE"}  # fmt: skip


def _error(error: StandInError) -> Response:
    entry = {"message": error.message, "domain": "global", "reason": error.reason}
    body = {
        "code": error.http_status,
        "message": error.message,
        "errors": [entry],
        "status": _STATUS_NAMES.get(error.http_status, "UNKNOWN"),
    }
    return JSONResponse({"error": body}, status_code=error.http_status)
