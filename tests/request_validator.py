"""Validates every request that Google's clients send in a test, with Google's description of the API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from google.auth.transport.requests import AuthorizedSession

from tests.rest_schemas import described

_BATCH = "/batch/storage/v1"
_APIS = {"/bigquery/v": "bigquery.v2", "/storage/v": "storage.v1"}  # by a part of the path


class RequestValidator:
    """Validates requests. `faults`: sentences about wrong requests so far. `validated`: the number of requests."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.validated = 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Validate every request that this process sends from now on. Requests are sent unchanged."""
        send: Callable[..., Any] = AuthorizedSession.request

        def validating(session: AuthorizedSession, method: str, url: str, data: Any = None, **kwargs: Any) -> Any:
            self.validate(method, url, data, kwargs.get("headers") or {})
            return send(session, method, url, data=data, **kwargs)

        monkeypatch.setattr(AuthorizedSession, "request", validating)

    def validate(self, verb: str, url: str, data: Any, headers: Any) -> None:
        """Validate one request, or all requests in a batch request of Cloud Storage."""
        try:
            if urlsplit(url).path.startswith(_BATCH):
                for inner_verb, inner_url, body in _inner_requests(data, headers):
                    self._validate_one(inner_verb, inner_url, body)
            else:
                self._validate_one(verb, url, _json_body(data, headers))
        except ValueError as error:
            self.faults.append(f"{verb} {url}: cannot be read: {error}")

    def _validate_one(self, verb: str, url: str, body: Any) -> None:
        api = next((name for part, name in _APIS.items() if part in urlsplit(url).path), None)
        if api is None or "upload_id=" in url:  # such a URL gets the content of a resumable upload
            return
        self.validated += 1
        self.faults += [f"{verb} {url}: {fault}" for fault in described(api).faults(verb, url, body)]


def _json_body(data: Any, headers: Any) -> Any:
    """The JSON in a request, if any: its body, or the first part of an upload, which has the metadata."""
    kind = _content_type(headers)
    raw = data.encode() if isinstance(data, str) else data
    if not raw or not isinstance(raw, bytes):
        return None
    if kind.startswith("multipart/related"):
        return json.loads(next(_parts(raw, kind)))
    return json.loads(raw) if kind.startswith("application/json") else None


def _inner_requests(data: Any, headers: Any) -> Iterator[tuple[str, str, Any]]:
    """The method, URL and JSON body of each request in a batch request."""
    kind = _content_type(headers)
    for part in _parts(data.encode() if isinstance(data, str) else data, kind):
        head, _, body = part.partition("\n\n")
        verb, url, _ = head.split("\n")[0].split(" ", 2)
        yield verb, url, json.loads(body) if body.strip() else None


def _content_type(headers: Any) -> str:
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), "")
    return kind.decode() if isinstance(kind, bytes) else str(kind)


def _parts(raw: bytes, content_type: str) -> Iterator[str]:
    """The contents of the parts of a multipart body.

    Not with the module `email`, whose parser takes longer than all other validation together.
    """
    boundary = content_type.partition("boundary=")[2].strip('"')
    _, *parts, _ = raw.split(f"--{boundary}".encode())
    for part in parts:
        yield part.replace(b"\r\n", b"\n").partition(b"\n\n")[2].decode()


@pytest.fixture(scope="session")
def request_validator() -> Iterator[RequestValidator]:
    """A validator of all requests of this process, for the tests of a folder that import this fixture."""
    validator = RequestValidator()
    with pytest.MonkeyPatch.context() as patch:
        validator.install(patch)
        yield validator
