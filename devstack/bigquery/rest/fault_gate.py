"""Stands before every request and does to it what a fault on purpose says."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from devstack.bigquery.faults import Fault, FaultBoard


class FaultGate:
    def __init__(self, application: ASGIApp, faults: FaultBoard) -> None:
        self._application = application
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        own = scope["type"] != "http" or scope["path"].startswith("/_standin/")
        fault = None if own else self._faults.take_request(scope["method"], scope["path"])
        if fault is None:
            await self._application(scope, receive, send)
        elif fault.effect == "delay":
            await asyncio.sleep(fault.seconds or 0)
            await self._application(scope, receive, send)
        elif fault.effect == "lost_reply":
            await self._application(scope, receive, _swallow)
            _hang_up(send)
        else:
            await _refusal(fault)(scope, receive, send)


async def _swallow(message: Message) -> None:
    """The request is carried out and its answer never sent."""


def _hang_up(send: Any) -> None:
    """Closes the connection without an answer. ASGI has no word for it, so this takes uvicorn's own transport."""
    send.__self__.transport.close()


def _refusal(fault: Fault) -> JSONResponse:
    status, reason = (403, "quotaExceeded") if fault.effect == "quota" else (fault.status, fault.reason)
    entry = {"message": fault.message, "domain": "global", "reason": reason}
    return JSONResponse({"error": {"code": status, "message": fault.message, "errors": [entry]}}, status_code=status)
