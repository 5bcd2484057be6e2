"""An HTTP session that makes servers behave otherwise: it changes requests before and answers after they are sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import requests
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession


@dataclass
class Call:
    """One request. `body` is its JSON, None for another kind of content."""

    method: str
    url: str
    body: Any


class RefusedRequest(Exception):
    """The changed server refuses the request, with status 400 and this message."""


@dataclass(frozen=True)
class Change:
    """What a server does otherwise. `applied` counts the requests and answers that it changed."""

    request: Callable[[Call], bool] = lambda call: False
    answer: Callable[[Call, Any], bool] = lambda call, content: False


class BrokenSession(AuthorizedSession):
    """Without a change, an ordinary session. `applied`: how many requests and answers were changed."""

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


def query_of(call: Call) -> dict[str, Any] | None:
    """The object that holds the request's SQL text under `query`."""
    if call.method != "POST" or not isinstance(call.body, dict):
        return None
    inside: Any = call.body.get("configuration", {}).get("query") or call.body
    return inside if isinstance(inside.get("query"), str) else None


def sql(pattern: str, replacement: str) -> Change:
    """The server runs another statement than it was sent."""

    def request(call: Call) -> bool:
        query = query_of(call)
        before = query["query"] if query else ""
        if query:
            query["query"] = re.sub(pattern, replacement, before, flags=re.DOTALL)
        return query is not None and query["query"] != before

    return Change(request)


def refused(pattern: str, message: str = "not supported") -> Change:
    """The server refuses requests whose JSON contains the pattern."""

    def request(call: Call) -> bool:
        if call.method in ("POST", "PUT") and call.body is not None and re.search(pattern, json.dumps(call.body)):
            raise RefusedRequest(message)
        return False

    return Change(request)


def job(kind: str, edit: Callable[[dict[str, Any]], bool]) -> Change:
    """The server runs a job with another configuration of this kind, such as load."""

    def request(call: Call) -> bool:
        found = (call.body or {}).get("configuration", {}).get(kind) if call.method == "POST" else None
        return bool(found) and edit(found)

    return Change(request)


def disposition(sent: str, used: str, kind: str = "load") -> Change:
    def edit(configuration: dict[str, Any]) -> bool:
        if configuration.get("writeDisposition") != sent:
            return False
        configuration["writeDisposition"] = used
        return True

    return job(kind, edit)


def answer(path: str, edit: Callable[[dict[str, Any]], object]) -> Change:
    """The server answers a GET whose address matches otherwise. `edit` changes the content."""

    def changed(call: Call, content: Any) -> bool:
        if call.method != "GET" or not re.search(path, call.url):
            return False
        before = json.dumps(content)
        edit(content)
        return json.dumps(content) != before

    return Change(answer=changed)


def statistics(edit: Callable[[dict[str, Any]], object]) -> Change:
    """The server tells other statistics of jobs."""

    def changed(call: Call, content: Any) -> bool:
        if "statistics" not in content:
            return False
        before = json.dumps(content)
        edit(content["statistics"])
        return json.dumps(content) != before

    return Change(answer=changed)


def address(pattern: str, replacement: str) -> Change:
    """The server overlooks a part of the address."""

    def request(call: Call) -> bool:
        before, call.url = call.url, re.sub(pattern, replacement, call.url)
        return call.url != before

    return Change(request)
