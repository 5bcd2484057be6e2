"""Sends HTTP requests, mostly with JSON, with the standard library only. The user's proxy settings are ignored."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

DEFAULT_TIMEOUT_S = 10.0

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Unreachable(Exception):
    """The server did not respond, or not with a complete HTTP response."""


@dataclass(frozen=True)
class Answer:
    """An HTTP response, also one with an error status."""

    status: int
    text: str

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.text)


def call(
    method: str,
    url: str,
    *,
    body: Any = None,
    content: bytes | None = None,
    token: str | None = None,
    accept: str = "application/json",
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> Answer:
    """Send one request and return the response, whatever its status is. Raises Unreachable if none comes.

    `body`: sent as JSON. `content`: sent as it is.
    """
    headers = {"Accept": accept}
    data = content
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    try:
        try:
            with _OPENER.open(request, timeout=timeout_s) as response:
                return Answer(response.status, response.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read().decode(errors="replace"))
    except (OSError, HTTPException) as error:  # a URLError is an OSError
        raise Unreachable(f"{method} {url} got no answer: {error}") from error
