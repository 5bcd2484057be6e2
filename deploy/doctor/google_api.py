"""Reads Google's REST APIs with the user's own credentials."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dedup_clone.contract.errors import DedupCloneError

if TYPE_CHECKING:
    from requests import Session

TIMEOUT_S = 30


class ApiError(DedupCloneError):
    """A Google API answered with an error. `status`: the HTTP status; `message`: Google's text."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"status [{status}]: {message}")
        self.status = status


class GoogleApi:
    """A client for Google's REST APIs that can only read: it sends GET requests, and POST requests that only read.

    Errors of the session, such as those of a failed connection or login, are raised unchanged.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def get(self, url: str, **parameters: str) -> dict[str, Any]:
        """The resource at the URL. Raises ApiError, with status 404 if it does not exist."""
        return self._request("GET", url, parameters, None)

    def items(self, url: str, key: str, **parameters: str) -> Iterator[dict[str, Any]]:
        """The items of a paged list. `key`: the field of each page that has its items. Raises ApiError."""
        while True:
            page = self.get(url, **parameters)
            yield from page.get(key, [])
            if not page.get("nextPageToken"):
                return
            parameters["pageToken"] = page["nextPageToken"]

    def read_by_post(self, url: str, body: Mapping[str, Any] | None = None, **parameters: str) -> dict[str, Any]:
        """The answer to a POST request that only reads, such as one to `URL:getIamPolicy`. Raises ApiError."""
        return self._request("POST", url, parameters, body or {})

    def _request(self, method: str, url: str, parameters: Mapping[str, str], body: Any) -> dict[str, Any]:
        answer = self._session.request(method, url, params=parameters, json=body, timeout=TIMEOUT_S)
        try:
            content = answer.json()
        except ValueError:
            content = {}
        if answer.status_code != 200:
            error = content.get("error", {}) if isinstance(content, dict) else {}
            message = error.get("message", "no message") if isinstance(error, dict) else error  # OAuth sends a word
            raise ApiError(answer.status_code, str(message))
        return dict(content)
