"""The web application of the page: its files and two JSON answers, all behind Airflow's login."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import ConfigurationError
from dedup_clone.page.reading import Indexes, Reading
from dedup_clone.page.rights import Rights
from dedup_clone.page.view import feed_view, publish_dag, rollback_dag, summary

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".html": "text/html", ".svg": "image/svg+xml"}
HEADERS = {
    # Airflow shows the page in a frame of its own origin; nothing from elsewhere is loaded, nothing inline runs.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


def utc_now() -> datetime:
    return datetime.now(UTC)


def create_application(
    indexes: Indexes,
    gate: Any,
    rights_of: Callable[..., Rights],
    now: Callable[[], datetime] = utc_now,
) -> FastAPI:
    """`gate` refuses strangers on every path; `rights_of` hands out what the person who asks may see and start."""
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import FileResponse, JSONResponse

    application = FastAPI(
        title="Snapshots", dependencies=[Depends(gate)], docs_url=None, redoc_url=None, openapi_url=None
    )
    rights_dependency = Depends(rights_of)

    @application.middleware("http")
    async def add_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers.update(HEADERS)
        # Files change with a deployment, answers with every publish: ask each time.
        response.headers["Cache-Control"] = "no-cache" if "/static/" in request.url.path else "no-store"
        return response

    @application.exception_handler(ConfigurationError)
    async def show_configuration_error(request: Request, error: Exception) -> Response:
        return JSONResponse({"detail": str(error)}, status_code=503)

    @application.get("/")
    def page() -> FileResponse:
        return FileResponse(STATIC / "index.html", media_type="text/html")

    @application.get("/static/{name:path}")
    def static_file(name: str) -> FileResponse:
        path = (STATIC / name).resolve()
        if path.suffix not in MEDIA_TYPES or not path.is_relative_to(STATIC) or not path.is_file():
            raise HTTPException(404, "There is no such file.")
        return FileResponse(path, media_type=MEDIA_TYPES[path.suffix])

    @application.get("/api/feeds")
    def feeds(rights: Rights = rights_dependency) -> JSONResponse:
        moment = now()
        shown = [r for r in indexes.all() if rights.may_read(publish_dag(r.feed))]
        return JSONResponse(
            {"now": moment.isoformat(), "feeds": [summary(r.feed, r.index, r.problem, moment) for r in shown]}
        )

    @application.get("/api/feeds/{feed}")
    def one_feed(feed: str, rights: Rights = rights_dependency) -> JSONResponse:
        reading: Reading | None = indexes.one(feed) if rights.may_read(publish_dag(feed)) else None
        if reading is None:
            raise HTTPException(404, "There is no such feed, or nothing is known of it yet.")
        if reading.index is None:
            raise HTTPException(409, reading.problem)
        view = feed_view(reading.index, now())
        view["may_replay"] = rights.may_trigger(publish_dag(feed))
        view["may_roll_back"] = rights.may_trigger(rollback_dag(feed))
        return JSONResponse(view)

    return application
