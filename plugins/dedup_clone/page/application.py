"""The page's web application: its static files and two JSON endpoints, all behind Airflow's login."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.page.feed_reader import FeedReader
from dedup_clone.page.feed_view import feed_summary, page_view

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
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


def _version_of_static_files() -> str:
    """Return a text that changes whenever a static file does: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for path in sorted(path for path in STATIC.rglob("*") if path.is_file()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


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
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import FileResponse, HTMLResponse, JSONResponse

    application = FastAPI(
        title="Snapshots", dependencies=[Depends(require_login)], docs_url=None, redoc_url=None, openapi_url=None
    )
    users_permissions = Depends(permissions_of)
    version = _version_of_static_files()

    @application.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers.update(HEADERS)
        # Browsers keep static files, because another version of them has another URL. Data and errors are never stored.
        is_current_file = f"/static/{version}/" in request.url.path and response.status_code < 400
        response.headers["Cache-Control"] = "private, max-age=31536000, immutable" if is_current_file else "no-store"
        return response

    @application.exception_handler(ConfigurationError)
    async def show_configuration_error(request: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, status_code=503)

    @application.get("/")
    def page() -> HTMLResponse:
        return HTMLResponse((STATIC / "index.html").read_text().replace('"static/', f'"static/{version}/'))

    @application.get("/static/{any_version}/{name:path}")
    def static_file(any_version: str, name: str) -> FileResponse:
        # During a deployment two web servers may have different versions, and a page of one may request the other's
        # files. So a file is served under any version.
        path = (STATIC / name).resolve()
        if path.suffix not in MEDIA_TYPES or not path.is_relative_to(STATIC) or not path.is_file():
            raise HTTPException(404, "There is no such file.")
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix])

    @application.get("/api/feeds")
    def feeds(permissions: Permissions = users_permissions) -> JSONResponse:
        at = now()
        readable = [found for feed, found in reader.overview().items() if permissions.may_read(f"{feed}_publish")]
        feeds = [feed_summary(summary, at) for summary in readable]
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
