"""The page's web application: its static files and two JSON endpoints, all behind Airflow's login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Depends, FastAPI, HTTPException
from fastapi.responses import FileResponse, JSONResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.page.feed_reader import FeedReader
from dedup_clone.page.feed_view import feed_summary, page_view

STATIC = Path(__file__).parent / "static"
HEADERS = {
    # Airflow shows the page in a frame of Airflow's own origin. Other origins and inline scripts are blocked.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


@dataclass(frozen=True)
class Permissions:
    """What the logged-in user may do with the DAG of a given id: read it, and start a run of it."""

    may_read: Callable[[str], bool]
    may_trigger: Callable[[str], bool]


def create_application(
    reader: FeedReader,
    require_login: Any,
    permissions_of: Callable[..., Permissions],
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> FastAPI:
    """The page's FastAPI application.

    `require_login`: a FastAPI dependency that rejects requests without a login; it guards every path.
    `permissions_of`: a FastAPI dependency that returns the permissions of the user who sends the request.
    """
    application = FastAPI(
        title="Snapshots", dependencies=[Depends(require_login)], docs_url=None, redoc_url=None, openapi_url=None
    )
    users_permissions = Depends(permissions_of)
    static_files = StaticFiles(directory=STATIC)

    @application.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers.update(HEADERS)
        # Browsers keep static files, and ask each time whether they have changed. Data is never stored.
        response.headers["Cache-Control"] = "no-cache" if "/static/" in request.url.path else "no-store"
        return response

    @application.exception_handler(ConfigurationError)
    async def show_configuration_error(request: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, status_code=503)

    @application.get("/")
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    @application.get("/static/{name:path}")
    async def static_file(name: str, request: Request) -> Response:
        return await static_files.get_response(name, request.scope)

    @application.get("/api/feeds")
    def feeds(permissions: Permissions = users_permissions) -> JSONResponse:
        at = now()
        readable = [verdict for verdict in reader.overview() if permissions.may_read(f"{verdict.feed}_publish")]
        feeds = [feed_summary(verdict, at) for verdict in readable]
        return JSONResponse({"now": at.isoformat(), "feeds": feeds})

    @application.get("/api/feeds/{feed}")
    def one_feed(feed: str, permissions: Permissions = users_permissions) -> JSONResponse:
        records = reader.read(feed) if permissions.may_read(f"{feed}_publish") else None
        if records is None:
            raise HTTPException(404, "There is no such feed, or nothing is known of it yet.")
        view = page_view(records, now())
        view["may_replay"] = permissions.may_trigger(f"{feed}_publish")
        view["may_roll_back"] = permissions.may_trigger(f"{feed}_rollback")
        return JSONResponse(view)

    return application
