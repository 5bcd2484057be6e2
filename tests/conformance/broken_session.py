"""Simulates servers that break a rule: an HTTP session changes requests before they are sent, and answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession


@dataclass
class Call:
    """One request. `body`: its JSON, None if its content is something else."""

    method: str
    url: str
    body: Any


class RefusedRequest(Exception):
    """The simulated server refuses the request with status 400 and this message."""


@dataclass(frozen=True)
class Change:
    """How a simulated server differs: functions that change a request or an answer, and return whether they did."""

    request: Callable[[Call], bool] = lambda call: False
    answer: Callable[[Call, Any], bool] = lambda call, content: False


class BrokenSession(AuthorizedSession):
    """The session. `change`: what it changes, at first nothing. `applied`: how many requests and answers it changed."""

    def __init__(self) -> None:
        super().__init__(AnonymousCredentials())
        self.change = Change()
        self.applied = 0

    def request(self, method: str, url: str, data: Any = None, headers: Any = None, **kw: Any) -> requests.Response:
        is_json = isinstance(data, str) and data.startswith("{")
        call = Call(method, url, json.loads(data) if is_json else None)
        try:
            self.applied += self.change.request(call)
        except RefusedRequest as refused:
            self.applied += 1
            error = {"code": 400, "message": str(refused), "errors": [{"reason": "invalid", "message": str(refused)}]}
            return _answer(call, {"error": error})
        content = json.dumps(call.body) if is_json else data
        response = super().request(call.method, call.url, data=content, headers=headers, **kw)
        if "json" in response.headers.get("content-type", "") and response.ok and response.content:
            answered = response.json()
            if self.change.answer(call, answered):
                self.applied += 1
                response._content = json.dumps(answered).encode()
        return response


def _answer(call: Call, content: Any) -> requests.Response:
    response = requests.Response()
    response.status_code, response._content = 400, json.dumps(content).encode()
    response.headers["content-type"] = "application/json"
    response.request = requests.Request(call.method, call.url).prepare()
    return response
