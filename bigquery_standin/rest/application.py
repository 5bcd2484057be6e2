"""Routes HTTP requests to handlers, which run in threads, and returns errors as BigQuery's JSON."""

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

from bigquery_standin.bigquery_errors import Invalid, NotFound, NotImplementedConstruct, StandInError, StandInFailed
from bigquery_standin.rest import (
    control_handlers,
    dataset_handlers,
    job_handlers,
    query_handlers,
    routine_handlers,
    row_policy_handlers,
    table_data_handlers,
    table_handlers,
)
from bigquery_standin.rest.fault_middleware import FaultMiddleware
from bigquery_standin.rest.request_response import ApiRequest, ApiResponse
from bigquery_standin.rest.request_validation import check_body, check_parameters, local_document
from bigquery_standin.rest.supported_methods import METHODS, Method
from bigquery_standin.rest.uploads import Uploads, parse_multipart
from bigquery_standin.stand_in import StandIn
from bigquery_standin.storage.callers import user_of

Handler = Callable[[StandIn, ApiRequest], ApiResponse]
Endpoint = Callable[[Request], Awaitable[Response]]
THREAD_COUNT = 100  # a request that waits for the end of a job occupies one
LOG = logging.getLogger(__name__)

HANDLERS: Mapping[str, Handler] = {
    "datasets.insert": dataset_handlers.insert_dataset,
    "datasets.list": dataset_handlers.list_datasets,
    "datasets.get": dataset_handlers.get_dataset,
    "datasets.patch": dataset_handlers.patch_dataset,
    "datasets.delete": dataset_handlers.delete_dataset,
    "tables.insert": table_handlers.insert_table,
    "tables.list": table_handlers.list_tables,
    "tables.get": table_handlers.get_table,
    "tables.patch": table_handlers.patch_table,
    "tables.delete": table_handlers.delete_table,
    "tables.testIamPermissions": row_policy_handlers.test_table_permissions,
    "tabledata.list": table_data_handlers.list_rows,
    "rowAccessPolicies.insert": row_policy_handlers.insert_policy,
    "routines.list": routine_handlers.list_routines,
    "routines.get": routine_handlers.get_routine,
    "rowAccessPolicies.list": row_policy_handlers.list_policies,
    "rowAccessPolicies.getIamPolicy": row_policy_handlers.get_iam_policy,
    "rowAccessPolicies.testIamPermissions": row_policy_handlers.test_policy_permissions,
    "jobs.insert": job_handlers.insert_job,
    "jobs.list": job_handlers.list_jobs,
    "jobs.get": job_handlers.get_job,
    "jobs.cancel": job_handlers.cancel_job,
    "jobs.query": query_handlers.run_query,
    "jobs.getQueryResults": query_handlers.get_query_results,
}
CONTROL_ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "health", control_handlers.health),
    ("GET", "clock", control_handlers.get_clock),
    ("POST", "clock", control_handlers.move_clock),
    ("GET", "faults", control_handlers.list_faults),
    ("POST", "faults", control_handlers.add_fault),
    ("DELETE", "faults", control_handlers.clear_faults),
    ("GET", "grants", control_handlers.list_grants),
    ("POST", "grants", control_handlers.add_grant),
    ("DELETE", "grants", control_handlers.clear_grants),
)


def create_application(stand_in: StandIn) -> Any:
    """The stand-in as an ASGI application."""
    server = _Server(stand_in)
    routes = [
        Route(f"/bigquery/v2/{method.path}", server.api_endpoint(method), methods=[method.http]) for method in METHODS
    ]
    for http, path, handler in CONTROL_ROUTES:
        routes.append(Route(f"/_standin/{path}", server.control_endpoint(handler), methods=[http]))
    upload = "/upload/bigquery/v2/projects/{project}/jobs"
    routes += [
        Route(upload, server.open_upload, methods=["POST"]),
        Route(upload, server.continue_upload, methods=["PUT"]),
        Route("/$discovery/rest", server.discovery, methods=["GET"]),
        Route("/discovery/v1/apis/bigquery/v2/rest", server.discovery, methods=["GET"]),
        Route("/{rest:path}", server.unknown, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
    ]
    return FaultMiddleware(Starlette(routes=routes), stand_in.faults)


class _Server:
    """The endpoints that Starlette calls."""

    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in
        self._uploads = Uploads(stand_in)
        self._thread_limiter: CapacityLimiter | None = None

    def api_endpoint(self, method: Method) -> Endpoint:
        def handle(request: ApiRequest) -> ApiResponse:
            check_parameters(method, request.query)
            check_body(method, request.body)
            return HANDLERS[method.id](self._stand_in, request)

        return self._endpoint(handle)

    def control_endpoint(self, handler: Handler) -> Endpoint:
        return self._endpoint(lambda request: handler(self._stand_in, request))

    async def discovery(self, request: Request) -> Response:
        if request.query_params.get("version", "v2") != "v2":
            return _error(NotFound(f"Not found: discovery document of version [{request.query_params['version']}]."))
        return JSONResponse(local_document(str(request.base_url)))

    async def unknown(self, request: Request) -> Response:
        return _error(NotImplementedConstruct(f"{request.method} {request.url.path}"))

    async def open_upload(self, request: Request) -> Response:
        """A multipart upload, or the request that begins a resumable one."""
        upload_type, project = request.query_params.get("uploadType"), request.path_params["project"]
        content, base_url = await request.body(), str(request.base_url)
        user = user_of(request.headers.get("authorization"))
        insert = next(method for method in METHODS if method.id == "jobs.insert")

        def handle() -> ApiResponse:
            if upload_type == "multipart":
                header = request.headers.get("content-type", "")
                metadata, file = parse_multipart(header, content)
                body = _json(metadata)
                check_body(insert, body)
                return self._uploads.start(project, user, body, self._uploads.store(file), base_url)
            if upload_type != "resumable":
                raise NotImplementedConstruct(f"uploadType {upload_type}")
            body = _json(content)
            check_body(insert, body)
            address = request.url.include_query_params(upload_id=self._uploads.open(project, user, body))
            return ApiResponse({}, 200, {"Location": str(address)})

        return await self._respond(handle)

    async def continue_upload(self, request: Request) -> Response:
        """Further content of a resumable upload."""
        content, base_url = await request.body(), str(request.base_url)
        upload_id = request.query_params.get("upload_id", "")
        content_range = request.headers.get("content-range")
        return await self._respond(lambda: self._uploads.append(upload_id, content_range, content, base_url))

    def _endpoint(self, handle: Callable[[ApiRequest], ApiResponse]) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            content = await request.body()

            def run() -> ApiResponse:
                return handle(
                    ApiRequest(
                        path=request.path_params,
                        query=_parameters(request),
                        headers=request.headers,
                        body=_json(content),
                        base_url=str(request.base_url),
                    )
                )

            return await self._respond(run)

        return endpoint

    async def _respond(self, run: Callable[[], ApiResponse]) -> Response:
        if self._thread_limiter is None:
            self._thread_limiter = CapacityLimiter(THREAD_COUNT)
        try:
            response = await run_sync(run, limiter=self._thread_limiter)
        except StandInError as error:
            return _error(error)
        except Exception as error:
            LOG.exception("A request failed inside the stand-in.")
            return _error(StandInFailed(f"The stand-in failed: {error!r}. See its log."))
        if response.body is None:
            return Response(status_code=response.status, headers=dict(response.headers))
        return JSONResponse(response.body, status_code=response.status, headers=dict(response.headers))


def _parameters(request: Request) -> dict[str, str]:
    """Joins the values of a repeated parameter (stateFilter) by commas."""
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
