"""Applies injected faults to HTTP requests, as ASGI middleware."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bigquery_standin.faults import Fault, FaultRegistry


class FaultMiddleware:
    """Lets matching requests fail, wait, or lose their response, as the active faults demand."""

    def __init__(self, application: ASGIApp, faults: FaultRegistry) -> None:
        self._application = application
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_exempt = scope["type"] != "http" or scope["path"].startswith("/_standin/")
        fault = None if is_exempt else self._faults.match_request(scope["method"], scope["path"])
        if fault is None:
            await self._application(scope, receive, send)
        elif fault.effect == "delay":
            await asyncio.sleep(fault.seconds or 0)
            await self._application(scope, receive, send)
        elif fault.effect == "lost_reply":
            await self._application(scope, receive, _discard)
            _close_connection(send)
        else:
            await _error_response(fault)(scope, receive, send)


async def _discard(message: Message) -> None:
    """Discards the response."""


def _close_connection(send: Any) -> None:
    """Closes the connection without a response. ASGI cannot do that, so this uses uvicorn's transport."""
    send.__self__.transport.close()


def _error_response(fault: Fault) -> JSONResponse:
    status, reason = (403, "quotaExceeded") if fault.effect == "quota" else (fault.status, fault.reason)
    entry = {"message": fault.message, "domain": "global", "reason": reason}
    return JSONResponse({"error": {"code": status, "message": fault.message, "errors": [entry]}}, status_code=status)
