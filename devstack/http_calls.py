"""Sends HTTP requests, mostly with JSON, with the standard library only. The user's proxy settings are ignored."""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from datetime import datetime
from http.client import HTTPException
from typing import Any

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
    timeout_s: float = 10.0,
) -> Answer:
    """Send one request and return the response, whatever its status is. Raises Unreachable if none comes.

    `body`: sent as JSON. `content`: sent as it is.
    """
    headers = {"Accept": "application/json"}
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


def says_healthy(url: str, airflow_part: str | None = None, since: datetime | None = None) -> bool:
    """Whether `url` answers with success and, if `airflow_part` is given, calls this part of Airflow healthy.

    `since`: the part's last heartbeat must not be older.
    """
    try:
        answer = call("GET", url, timeout_s=5.0)
    except Unreachable:
        return False
    if not answer.ok or airflow_part is None:
        return answer.ok
    part = answer.json().get(airflow_part) or {}
    last = part.get(f"latest_{airflow_part}_heartbeat")
    is_new = since is None or (last is not None and datetime.fromisoformat(last) >= since)
    return part.get("status") == "healthy" and is_new
